"""Toy translation task: spelled-out numbers -> digits, read backwards.

    "four hundred twelve"  ->  "2 1 4"
"""
import random

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD, SOS, EOS = 0, 1, 2
SPECIALS = ["<pad>", "<sos>", "<eos>"]

ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen " \
       "sixteen seventeen eighteen nineteen".split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()


def spell(n):
    words = []
    if n >= 1000:
        words += [ONES[n // 1000], "thousand"]
        n %= 1000
    if n >= 100:
        words += [ONES[n // 100], "hundred"]
        n %= 100
    if n >= 20:
        words.append(TENS[n // 10])
        n %= 10
        if n:
            words.append(ONES[n])
    elif n or not words:
        words.append(ONES[n])
    return words


class Vocab:
    def __init__(self, sentences):
        words = set()
        for s in sentences:
            words.update(s)
        self.itos = SPECIALS + sorted(words)  # sorted: a set has no stable order between runs
        self.stoi = {w: i for i, w in enumerate(self.itos)}

    def __len__(self):
        return len(self.itos)

    def encode(self, words):
        return [self.stoi[w] for w in words] + [EOS]

    def decode(self, ids):
        out = []
        for i in ids:
            if i == EOS:
                break
            out.append(self.itos[i])
        return " ".join(out)


class PairDataset(Dataset):
    def __init__(self, pairs, src_vocab, tgt_vocab):
        self.items = [(src_vocab.encode(s), tgt_vocab.encode(t)) for s, t in pairs]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        src, tgt = self.items[idx]
        return torch.tensor(src), torch.tensor(tgt)


def collate_fn(batch):
    srcs, tgts = zip(*batch)
    lengths = torch.tensor([len(s) for s in srcs])
    src = pad_sequence(srcs, batch_first=True, padding_value=PAD)
    tgt = pad_sequence(tgts, batch_first=True, padding_value=PAD)
    return src, lengths, tgt


def load_data(n_train, n_valid, batch_size, seed):
    numbers = list(range(1, 10000))
    random.Random(seed).shuffle(numbers)
    numbers = numbers[: n_train + n_valid]
    pairs = [(spell(n), list(reversed(str(n)))) for n in numbers]
    src_vocab = Vocab(s for s, _ in pairs)
    tgt_vocab = Vocab(t for _, t in pairs)
    train = PairDataset(pairs[:n_train], src_vocab, tgt_vocab)
    valid = PairDataset(pairs[n_train:], src_vocab, tgt_vocab)
    train_iter = DataLoader(train, batch_size=batch_size, shuffle=True, collate_fn=collate_fn)
    valid_iter = DataLoader(valid, batch_size=batch_size, shuffle=False, collate_fn=collate_fn)
    return train_iter, valid_iter, src_vocab, tgt_vocab
