import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(0)
data = TensorDataset(torch.randn(100, 4), torch.randint(0, 2, (100,)))
n_val = 20
n_train = len(data) - n_val
train, val = random_split(data, [n_train, n_val], generator=torch.Generator().manual_seed(0))
batch_size = 4
args = dict(batch_size=batch_size, num_workers=0)
loader = DataLoader(train, shuffle=True, **args)
val_loader = DataLoader(val, shuffle=False, **args)
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, "max", patience=2)
step = 0
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        division = n_train // (5 * batch_size)
        if division > 0 and step % division == 0:
            with torch.no_grad():
                score = sum((model(a).argmax(1) == b).float().mean().item() for a, b in val_loader) / len(val_loader)
            scheduler.step(score)
            print(step, score)
