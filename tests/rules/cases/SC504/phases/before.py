import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
def mk(w): return nn.Sequential(nn.Linear(5, w), nn.ReLU(), nn.Linear(w, 4))
teacher, student = mk(32), mk(8)
for p in teacher.parameters(): p.requires_grad_(False)
teacher.eval()
loaders = {"train": DataLoader(TensorDataset(torch.randn(128, 5), torch.randint(0, 4, (128,))), 16, shuffle=True),
           "val": DataLoader(TensorDataset(torch.randn(50, 5), torch.randint(0, 4, (50,))), 16)}
opt = torch.optim.SGD(student.parameters(), 0.1, momentum=0.9)
sch = torch.optim.lr_scheduler.OneCycleLR(opt, 0.2, epochs=3, steps_per_epoch=len(loaders["train"]))
sizes = {k: len(v.dataset) for k, v in loaders.items()}
hist = {"train": [], "val": []}
for epoch in range(3):
    for phase in ["train", "val"]:
        student.train(phase == "train")
        loss_sum, hit, seen = 0.0, 0, 0
        for x, y in loaders[phase]:
            with torch.set_grad_enabled(phase == "train"):
                logits = student(x)
                with torch.no_grad():
                    soft = teacher(x)
                loss = 0.5 * F.cross_entropy(logits, y) + 0.5 * F.kl_div(F.log_softmax(logits / 2, 1), F.softmax(soft / 2, 1), reduction="batchmean") * 4
            if phase == "train":
                opt.zero_grad(); loss.backward(); opt.step(); sch.step()
            loss_sum += loss.item() * x.size(0)
            hit += torch.sum(logits.argmax(1) == y.data)
            seen += x.size(0)
        hist[phase].append(loss_sum / seen)
        print(f"{phase} loss {loss_sum / sizes[phase]:.4f} acc {hit.double() / sizes[phase]:.4f}")
torch.save({"student": student.state_dict(), "hist": hist}, "kd.pt")
