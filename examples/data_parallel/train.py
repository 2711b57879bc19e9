import os
os.environ["CUDA_VISIBLE_DEVICES"] = "0,1,2,3"  # must come before torch

import argparse
import shutil
import time

import torch
import torch.nn as nn
import torch.backends.cudnn as cudnn
import torch.utils.data

parser = argparse.ArgumentParser(description='Keyword spotting (1-D conv) on several GPUs with DataParallel')
parser.add_argument('-j', '--workers', default=0, type=int)
parser.add_argument('--epochs', default=4, type=int)
parser.add_argument('--start-epoch', default=0, type=int)
parser.add_argument('-b', '--batch-size', default=64, type=int,
	help='total over all GPUs, DataParallel splits it')
parser.add_argument('--lr', default=0.02, type=float)
parser.add_argument('--momentum', default=0.9, type=float)
parser.add_argument('--wd', default=1e-4, type=float)
parser.add_argument('-p', '--print-freq', default=4, type=int)
parser.add_argument('--resume', default='', type=str)
parser.add_argument('--evaluate', action='store_true')
parser.add_argument('--dropout', default=0.2, type=float)

best_prec1 = 0


class ToneWords(torch.utils.data.Dataset):
	"""A 'word' is three tones in a fixed order, at a random speed, in noise."""
	WORDS = [(3, 7, 5), (7, 3, 5), (5, 5, 9), (9, 3, 3), (4, 8, 4), (8, 4, 8)]

	def __init__(self, n, seed):
		g = torch.Generator().manual_seed(seed)
		self.labels = torch.randint(len(self.WORDS), (n,), generator=g)
		t = torch.linspace(0, 1, 64)
		waves = []
		for y in self.labels.tolist():
			parts = []
			for f in self.WORDS[y]:
				speed = 0.9 + 0.2 * torch.rand(1, generator=g)
				phase = 6.28 * torch.rand(1, generator=g)
				parts.append(torch.sin(6.2832 * f * speed * t + phase))
			waves.append(torch.cat(parts))
		self.waves = torch.stack(waves).unsqueeze(1)
		self.waves += 0.5 * torch.randn(self.waves.shape, generator=g)

	def __getitem__(self, i):
		return self.waves[i], self.labels[i]

	def __len__(self):
		return len(self.labels)


class ConvNet1d(nn.Module):
	def __init__(self, num_classes, dropout):
		super(ConvNet1d, self).__init__()
		self.features = nn.Sequential(
			nn.Conv1d(1, 16, 9, stride=2, padding=4), nn.BatchNorm1d(16), nn.ReLU(),
			nn.Conv1d(16, 32, 5, stride=2, padding=2), nn.BatchNorm1d(32), nn.ReLU(),
			nn.MaxPool1d(4),
		)
		self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(32 * 12, num_classes))

	def forward(self, x):
		return self.classifier(self.features(x).flatten(1))


class AverageMeter(object):
	"""Computes and stores the average and current value"""
	def __init__(self):
		self.reset()

	def reset(self):
		self.val = self.avg = self.sum = self.count = 0

	def update(self, val, n=1):
		self.val = val
		self.sum += val * n
		self.count += n
		self.avg = self.sum / self.count


def accuracy(output, target, topk=(1,)):
	with torch.no_grad():
		_, pred = output.topk(max(topk), 1, True, True)
		correct = pred.t().eq(target.view(1, -1).expand_as(pred.t()))
		return [correct[:k].reshape(-1).float().sum(0) * 100.0 / target.size(0) for k in topk]


def train(loader, model, criterion, optimizer, epoch):
	losses, top1, batch_time = AverageMeter(), AverageMeter(), AverageMeter()
	model.train()
	end = time.time()
	for i, (input, target) in enumerate(loader):
		input, target = input.to(device), target.to(device)
		output = model(input)
		loss = criterion(output, target)
		prec1, = accuracy(output, target)
		losses.update(loss.item(), input.size(0))
		top1.update(prec1.item(), input.size(0))

		optimizer.zero_grad()
		loss.backward()
		optimizer.step()
		batch_time.update(time.time() - end)
		end = time.time()
		if i % args.print_freq == 0:
			print('Epoch: [{0}][{1}/{2}]\tLoss {loss.val:.4f} ({loss.avg:.4f})\tPrec@1 {top1.val:.3f} ({top1.avg:.3f})'
				.format(epoch, i, len(loader), loss=losses, top1=top1))


def validate(loader, model, criterion):
	losses, top1, top3 = AverageMeter(), AverageMeter(), AverageMeter()
	model.eval()
	with torch.no_grad():
		for input, target in loader:
			input, target = input.to(device), target.to(device)
			output = model(input)
			prec1, prec3 = accuracy(output, target, topk=(1, 3))
			losses.update(criterion(output, target).item(), input.size(0))
			top1.update(prec1.item(), input.size(0))
			top3.update(prec3.item(), input.size(0))
	print(' * Loss {:.4f} Prec@1 {:.3f} Prec@3 {:.3f}'.format(losses.avg, top1.avg, top3.avg))
	return top1.avg


def save_checkpoint(state, is_best, filename='checkpoint.pth.tar'):
	torch.save(state, filename)
	if is_best:
		shutil.copyfile(filename, 'model_best.pth.tar')


def adjust_learning_rate(optimizer, epoch):
	"""LR decayed by 10 every 3 epochs"""
	lr = args.lr * (0.1 ** (epoch // 3))
	for param_group in optimizer.param_groups:
		param_group['lr'] = lr


if __name__ == '__main__':
	args = parser.parse_args()
	torch.manual_seed(20)
	cudnn.benchmark = True
	device = 'cuda' if torch.cuda.is_available() else 'cpu'

	device_ids = list(range(torch.cuda.device_count()))
	model = ConvNet1d(len(ToneWords.WORDS), args.dropout)
	model = nn.DataParallel(model, device_ids=device_ids).to(device)

	criterion = nn.CrossEntropyLoss().to(device)
	optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.wd)

	if args.resume:
		if os.path.isfile(args.resume):
			checkpoint = torch.load(args.resume, map_location=device)
			args.start_epoch = checkpoint['epoch']
			best_prec1 = checkpoint['best_prec1']
			model.module.load_state_dict(checkpoint['state_dict'])
			optimizer.load_state_dict(checkpoint['optimizer'])
			print("=> loaded checkpoint '{}' (epoch {})".format(args.resume, checkpoint['epoch']))
		else:
			print("=> no checkpoint found at '{}'".format(args.resume))

	train_loader = torch.utils.data.DataLoader(
		ToneWords(768, seed=1), batch_size=args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=False)
	val_loader = torch.utils.data.DataLoader(
		ToneWords(256, seed=2), batch_size=args.batch_size, shuffle=False, num_workers=args.workers, pin_memory=False)

	if args.evaluate:
		validate(val_loader, model, criterion)
		raise SystemExit

	for epoch in range(args.start_epoch, args.epochs):
		adjust_learning_rate(optimizer, epoch)
		train(train_loader, model, criterion, optimizer, epoch)
		prec1 = validate(val_loader, model, criterion)
		is_best = prec1 > best_prec1
		best_prec1 = max(prec1, best_prec1)
		save_checkpoint({
			'epoch': epoch + 1,
			'state_dict': model.module.state_dict(),
			'best_prec1': best_prec1,
			'optimizer': optimizer.state_dict(),
		}, is_best)
	print('best Prec@1 {:.3f}'.format(best_prec1))
