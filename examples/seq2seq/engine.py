import torch

from data import PAD


def train_one_epoch(model, iterator, optimizer, criterion, clip, tf_ratio, device):
    model.train()
    epoch_loss, n_tokens = 0, 0

    for src, lengths, tgt in iterator:
        src, tgt = src.to(device), tgt.to(device)

        optimizer.zero_grad()
        output = model(src, lengths, tgt, tf_ratio)
        # output = [batch, tgt len, vocab]; the criterion ignores padding and averages over real tokens
        loss = criterion(output.reshape(-1, output.size(-1)), tgt.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()

        tokens = (tgt != PAD).sum().item()
        epoch_loss += loss.item() * tokens
        n_tokens += tokens

    return epoch_loss / n_tokens


def evaluate(model, iterator, criterion, device):
    model.eval()
    epoch_loss, n_tokens = 0, 0
    exact, n_sentences = 0, 0

    with torch.no_grad():
        for src, lengths, tgt in iterator:
            src, tgt = src.to(device), tgt.to(device)
            output = model(src, lengths, tgt, 0)  # turn off teacher forcing
            loss = criterion(output.reshape(-1, output.size(-1)), tgt.reshape(-1))
            tokens = (tgt != PAD).sum().item()
            epoch_loss += loss.item() * tokens
            n_tokens += tokens

            pred = output.argmax(2)
            right = ((pred == tgt) | (tgt == PAD)).all(dim=1)
            exact += right.sum().item()
            n_sentences += tgt.size(0)

    return epoch_loss / n_tokens, exact / n_sentences


@torch.no_grad()
def translate(model, src, max_len, device):
    model.eval()
    lengths = torch.tensor([len(src)])
    dummy = torch.zeros(1, max_len, dtype=torch.long, device=device)
    return model(src.unsqueeze(0).to(device), lengths, dummy, 0).argmax(2)[0].tolist()
