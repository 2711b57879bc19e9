import mlflow
import torch

mlflow.set_experiment("lines")
with mlflow.start_run():
    mlflow.log_params({"lr": 0.1})
    net = torch.nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(10):
        opt.zero_grad()
        net(torch.randn(2, 3)).sum().backward()
        opt.step()
    mlflow.log_metric("rounds", i)
