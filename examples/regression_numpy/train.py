# Predict the energy use of a building from weather + time of day.
# numpy in, numpy out, no DataLoader needed for 2000 rows.
import json
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 0
N = 2048
BATCH = 64
EPOCHS = 25
LR = 5e-3
DEVICE = torch.device('cuda' if torch.cuda.is_available() else 'cpu')

np.random.seed(SEED)
torch.manual_seed(SEED)


# ---- data ----
def load():
    hour = np.random.uniform(0, 24, N)
    temp = 12 + 8 * np.sin((hour - 9) / 24 * 2 * np.pi) + np.random.randn(N) * 4
    wind = np.random.gamma(2., 2., N)
    sun = np.clip(np.sin((hour - 6) / 12 * np.pi), 0, None) * np.random.beta(2, 2, N)
    occupied = ((hour > 8) & (hour < 18)).astype(float)
    y = (np.maximum(18 - temp, 0) * (1 + 0.05 * wind) + np.maximum(temp - 22, 0) * 1.5
         - 4 * sun + 6 * occupied + 20 + np.random.randn(N) * 0.5)
    X = np.column_stack([np.sin(hour / 24 * 2 * np.pi), np.cos(hour / 24 * 2 * np.pi), temp, wind, sun, occupied])
    return X.astype('float32'), y.astype('float32')


X, y = load()
idx = np.arange(N)
np.random.shuffle(idx)
split = int(0.75 * N)
train_idx, val_idx = idx[:split], idx[split:]

# standardise with the statistics of the training part only
mu, sd = X[train_idx].mean(0), X[train_idx].std(0)
y_mu, y_sd = y[train_idx].mean(), y[train_idx].std()
Xn = (X - mu) / sd
yn = (y - y_mu) / y_sd

x_train = torch.from_numpy(Xn[train_idx]).to(DEVICE)
y_train = torch.from_numpy(yn[train_idx]).to(DEVICE)
x_val = torch.from_numpy(Xn[val_idx]).to(DEVICE)
y_val = torch.from_numpy(yn[val_idx]).to(DEVICE)


# ---- model ----
class Net(nn.Module):
    def __init__(self, d_in, d_hidden=64):
        super().__init__()
        self.l1 = nn.Linear(d_in, d_hidden)
        self.l2 = nn.Linear(d_hidden, d_hidden)
        self.l3 = nn.Linear(d_hidden, 1)

    def forward(self, x):
        x = torch.tanh(self.l1(x))
        x = torch.tanh(self.l2(x))
        return self.l3(x).squeeze(1)


class EarlyStopping:
    """Stop when the validation loss has not decreased for `patience` epochs; remembers the best weights."""

    def __init__(self, patience=4, path='best_model.pt'):
        self.patience = patience
        self.path = path
        self.best = np.inf
        self.counter = 0
        self.stop = False

    def __call__(self, val_loss, model):
        if val_loss < self.best:
            self.best = val_loss
            self.counter = 0
            torch.save(model.state_dict(), self.path)
        else:
            self.counter += 1
            print(f'  EarlyStopping counter: {self.counter} out of {self.patience}')
            self.stop = self.counter >= self.patience


model = Net(X.shape[1]).to(DEVICE)
opt = torch.optim.NAdam(model.parameters(), lr=LR)
stopper = EarlyStopping()
history = {'train': [], 'val_mse': [], 'val_mae': []}

n = x_train.shape[0]
for epoch in range(EPOCHS):
    model.train()
    perm = torch.randperm(n)
    running = 0.
    for i in range(0, n, BATCH):
        rows = perm[i:i + BATCH]
        xb, yb = x_train[rows], y_train[rows]
        opt.zero_grad()
        loss = F.smooth_l1_loss(model(xb), yb, beta=0.5)
        loss.backward()
        opt.step()
        running += loss.item() * len(rows)

    model.eval()
    with torch.no_grad():
        pred = model(x_val)
        mse = F.mse_loss(pred, y_val).item()
        mae = (pred - y_val).abs().mean().item() * float(y_sd)  # back to kWh
    history['train'].append(running / n)
    history['val_mse'].append(mse)
    history['val_mae'].append(mae)
    print('epoch %2d   train %.5f   val mse %.5f   val mae %.3f kWh' % (epoch, running / n, mse, mae))

    stopper(mse, model)
    if stopper.stop:
        print('Early stopping')
        break

model.load_state_dict(torch.load('best_model.pt', weights_only=True))
model.eval()
with torch.no_grad():
    p = model(x_val).cpu().numpy() * y_sd + y_mu
resid = p - y[val_idx]
r2 = 1 - (resid ** 2).sum() / ((y[val_idx] - y[val_idx].mean()) ** 2).sum()
print('best val mse %.5f, R2 %.4f' % (stopper.best, r2))

with open('history.json', 'w') as f:
    json.dump(history, f)
np.save('val_predictions.npy', p)
