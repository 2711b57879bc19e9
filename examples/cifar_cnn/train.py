# small conv net on (fake) cifar10, single gpu
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(1234)
np.random.seed(1234)
torch.backends.cudnn.benchmark = True

# hyper params
batch_size = 64
num_epochs = 3
lr = 0.05
best_acc = 0.0

classes = ('plane', 'car', 'bird', 'cat', 'deer', 'dog', 'frog', 'horse', 'ship', 'truck')

MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(3, 1, 1)
STD = torch.tensor([0.2470, 0.2435, 0.2616]).view(3, 1, 1)


class FakeCIFAR(Dataset):
    """Same shapes as CIFAR10: every class has a blurry prototype, a sample is prototype + noise."""

    def __init__(self, train=True):
        rng = np.random.RandomState(7)
        coarse = torch.from_numpy(rng.rand(10, 3, 4, 4)).float()
        protos = F.interpolate(coarse, size=32, mode='bilinear', align_corners=False)
        rng = np.random.RandomState(100 if train else 200)
        n = 768 if train else 256
        self.targets = rng.randint(0, 10, size=n).tolist()
        noise = torch.from_numpy(rng.randn(n, 3, 32, 32)).float() * 0.45
        self.data = (0.4 + 0.22 * protos[self.targets] + noise).clamp(0, 1)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        img = self.data[i]
        # if torch.rand(1) < 0.5:   # flip, no use for the toy data
        #     img = img.flip(-1)
        return (img - MEAN) / STD, self.targets[i]


trainset = FakeCIFAR(train=True)
trainloader = DataLoader(trainset, batch_size=batch_size, shuffle=True, pin_memory=True)
testset = FakeCIFAR(train=False)
testloader = DataLoader(testset, batch_size=64, shuffle=False, pin_memory=True)


def conv_bn(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.features = nn.Sequential(
            conv_bn(3, 12),
            nn.MaxPool2d(2),
            conv_bn(12, 24),
            nn.MaxPool2d(2),
            conv_bn(24, 32, stride=2),
        )
        self.fc = nn.Linear(32 * 4 * 4, 10)

    def forward(self, x):
        x = self.features(x)
        x = x.view(x.size(0), -1)
        return self.fc(x)


net = Net().cuda()
criterion = nn.CrossEntropyLoss().cuda()
optimizer = optim.SGD(net.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)

print('params: %.2fk' % (sum(p.numel() for p in net.parameters()) / 1e3))


def evaluate():
    net.eval()
    correct = 0
    total = 0
    loss_sum = 0.0
    class_correct = [0] * 10
    class_total = [0] * 10
    with torch.no_grad():
        for images, labels in testloader:
            images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
            outputs = net(images)
            loss_sum += criterion(outputs, labels).item()
            _, predicted = outputs.max(1)
            total += labels.size(0)
            hits = predicted.eq(labels)
            correct += hits.sum().item()
            for l, h in zip(labels.tolist(), hits.tolist()):
                class_correct[l] += int(h)
                class_total[l] += 1
    worst = min(range(10), key=lambda c: class_correct[c] / max(class_total[c], 1))
    return loss_sum / len(testloader), 100. * correct / total, classes[worst]


start = time.time()
for epoch in range(num_epochs):
    net.train()
    running_loss = 0.0
    correct = 0
    total = 0
    for i, (inputs, targets) in enumerate(trainloader):
        inputs = inputs.cuda(non_blocking=True)
        targets = targets.cuda(non_blocking=True)

        optimizer.zero_grad()
        outputs = net(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()

        running_loss += loss.item()
        correct += outputs.argmax(1).eq(targets).sum().item()
        total += targets.size(0)
        if i % 4 == 3:
            print('[%d, %3d] loss: %.3f' % (epoch + 1, i + 1, running_loss / (i + 1)))

    scheduler.step()
    test_loss, acc, worst = evaluate()
    print('epoch %d  train loss %.4f  train acc %.2f%%  test loss %.4f  test acc %.2f%%  worst class: %s'
          % (epoch + 1, running_loss / len(trainloader), 100. * correct / total, test_loss, acc, worst))

    # keep the best one
    if acc > best_acc:
        best_acc = acc
        if not os.path.isdir('checkpoint'):
            os.mkdir('checkpoint')
        torch.save(net.state_dict(), './checkpoint/cifar_net.pth')
        print('saved, best so far %.2f' % best_acc)

print('Finished Training, best acc: %.2f%%' % best_acc)
