import argparse
import math
import random
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

import data
from engine import evaluate, train_one_epoch, translate
from model import build_model

parser = argparse.ArgumentParser(description="number words -> reversed digits")
parser.add_argument("--batch_size", type=int, default=64)
parser.add_argument("--n_epochs", type=int, default=5)
parser.add_argument("--emb_dim", type=int, default=24)
parser.add_argument("--hid_dim", type=int, default=48)
parser.add_argument("--lr", type=float, default=5e-3)
parser.add_argument("--clip", type=float, default=1.0)
parser.add_argument("--teacher_forcing", type=float, default=0.7)
parser.add_argument("--save_path", default="seq2seq-best.pt")
args = parser.parse_args()

SEED = 1234
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)
torch.backends.cudnn.deterministic = True

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def epoch_time(start, end):
    mins, secs = divmod(end - start, 60)
    return f"{int(mins)}m {secs:.1f}s"


train_iter, valid_iter, src_vocab, tgt_vocab = data.load_data(1024, 256, args.batch_size, SEED)
print(f"source vocabulary: {len(src_vocab)}, target vocabulary: {len(tgt_vocab)}")

model = build_model(len(src_vocab), len(tgt_vocab), args.emb_dim, args.hid_dim, device)
print(f"The model has {sum(p.numel() for p in model.parameters() if p.requires_grad):,} trainable parameters")

optimizer = optim.Adam(model.parameters(), lr=args.lr)
criterion = nn.CrossEntropyLoss(ignore_index=data.PAD)

best_valid_loss = float("inf")
for epoch in range(args.n_epochs):
    start_time = time.time()
    train_loss = train_one_epoch(model, train_iter, optimizer, criterion, args.clip, args.teacher_forcing, device)
    valid_loss, exact = evaluate(model, valid_iter, criterion, device)
    print(f"Epoch: {epoch + 1:02} | Time: {epoch_time(start_time, time.time())}", file=sys.stderr)
    print(f"Epoch: {epoch + 1:02} | Train Loss: {train_loss:.3f} | Train PPL: {math.exp(train_loss):7.3f}")
    print(f"\t   Val. Loss: {valid_loss:.3f} |  Val. PPL: {math.exp(valid_loss):7.3f} | exact {exact:.2%}")

    if valid_loss < best_valid_loss:
        best_valid_loss = valid_loss
        torch.save(model.state_dict(), args.save_path)

model.load_state_dict(torch.load(args.save_path, map_location=device))
for n in (7, 42, 1318):
    src = torch.tensor(src_vocab.encode(data.spell(n)))
    print(" ".join(data.spell(n)), "->", tgt_vocab.decode(translate(model, src, 6, device)))
