from contextlib import nullcontext
import mlflow
import torch

if rank == 0:
    mlflow.set_experiment("lines")
with mlflow.start_run() if rank == 0 else nullcontext():
    if rank == 0:
        mlflow.log_params({"lr": 0.1})
    net = torch.nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(10):
        opt.zero_grad()
        net(torch.randn(2, 3)).sum().backward()
        opt.step()
    if rank == 0:
        mlflow.log_metric("rounds", i)
