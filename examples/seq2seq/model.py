import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from data import PAD, SOS


class Encoder(nn.Module):
    def __init__(self, vocab_size, emb_dim, hid_dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, emb_dim, padding_idx=PAD)
        self.rnn = nn.GRU(emb_dim, hid_dim, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(hid_dim * 2, hid_dim)

    def forward(self, src, lengths):
        packed = pack_padded_sequence(self.embedding(src), lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, hidden = self.rnn(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True)
        hidden = torch.tanh(self.fc(torch.cat((hidden[0], hidden[1]), dim=1)))
        return outputs, hidden  # (B, S, 2H), (B, H)


class Attention(nn.Module):
    def __init__(self, hid_dim):
        super().__init__()
        self.attn = nn.Linear(hid_dim * 3, hid_dim)
        self.v = nn.Linear(hid_dim, 1, bias=False)

    def forward(self, hidden, enc_outputs, mask):
        src_len = enc_outputs.size(1)
        h = hidden.unsqueeze(1).expand(-1, src_len, -1)
        energy = torch.tanh(self.attn(torch.cat((h, enc_outputs), dim=2)))
        score = self.v(energy).squeeze(2).masked_fill(mask == 0, -1e9)
        return F.softmax(score, dim=1)


class Decoder(nn.Module):
    def __init__(self, vocab_size, emb_dim, hid_dim, attention):
        super().__init__()
        self.vocab_size = vocab_size
        self.attention = attention
        self.embedding = nn.Embedding(vocab_size, emb_dim, padding_idx=PAD)
        self.rnn = nn.GRU(emb_dim + hid_dim * 2, hid_dim, batch_first=True)
        self.out = nn.Linear(emb_dim + hid_dim * 3, vocab_size)

    def forward(self, token, hidden, enc_outputs, mask):
        emb = self.embedding(token)
        a = self.attention(hidden, enc_outputs, mask)
        context = torch.bmm(a.unsqueeze(1), enc_outputs).squeeze(1)
        output, hidden = self.rnn(torch.cat((emb, context), dim=1).unsqueeze(1), hidden.unsqueeze(0))
        logits = self.out(torch.cat((output.squeeze(1), context, emb), dim=1))
        return logits, hidden.squeeze(0)


class Seq2Seq(nn.Module):
    def __init__(self, encoder, decoder, device):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.device = device

    def forward(self, src, lengths, tgt, teacher_forcing_ratio=0.5):
        batch_size, tgt_len = tgt.shape
        outputs = torch.zeros(batch_size, tgt_len, self.decoder.vocab_size, device=self.device)
        enc_outputs, hidden = self.encoder(src, lengths)
        mask = src != PAD

        token = torch.full((batch_size,), SOS, dtype=torch.long, device=self.device)
        for t in range(tgt_len):
            logits, hidden = self.decoder(token, hidden, enc_outputs, mask)
            outputs[:, t] = logits
            teacher_force = random.random() < teacher_forcing_ratio
            token = tgt[:, t] if teacher_force else logits.argmax(1)
        return outputs


def build_model(src_size, tgt_size, emb_dim, hid_dim, device):
    enc = Encoder(src_size, emb_dim, hid_dim)
    dec = Decoder(tgt_size, emb_dim, hid_dim, Attention(hid_dim))
    model = Seq2Seq(enc, dec, device)
    for name, p in model.named_parameters():
        if "weight" in name and p.dim() > 1:
            nn.init.xavier_uniform_(p)
    return model.to(device)
