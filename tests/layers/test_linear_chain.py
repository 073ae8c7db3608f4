"""The linear-chain CRF against brute force over every labelling of short sequences."""

import itertools

import pytest
import torch

from regard.layers.linear_chain import LinearChain

LABELS, LENGTHS = 3, [4, 2, 1, 0]


@pytest.fixture
def chain():
    torch.manual_seed(2)
    chain = LinearChain(LABELS).double()
    for parameter in chain.parameters():
        torch.nn.init.normal_(parameter)
    return chain


@pytest.fixture
def emissions():
    torch.manual_seed(3)
    return torch.randn(len(LENGTHS), max(LENGTHS), LABELS, dtype=torch.double)


MASK = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


def weighed(chain, emissions):
    """Every labelling of a sequence with its score."""
    for labels in itertools.product(range(LABELS), repeat=len(emissions)):
        score = chain.start[labels[0]] + chain.end[labels[-1]] + sum(e[label] for e, label in zip(emissions, labels))
        yield labels, (score + sum(chain.follows[a, b] for a, b in itertools.pairwise(labels))).item()


def exact(chain, emissions):
    labellings = list(weighed(chain, emissions))
    weights = torch.tensor([score for _, score in labellings], dtype=torch.double).softmax(0)
    return [labels for labels, _ in labellings], weights


def test_log_probability(chain, emissions):
    for row, length in enumerate(LENGTHS[:3]):
        every, probabilities = exact(chain, emissions[row, :length])
        assert probabilities.sum() == pytest.approx(1)
        for labels, probability in zip(every, probabilities):
            padded = torch.zeros(len(LENGTHS), max(LENGTHS), dtype=torch.long)
            padded[row, :length] = torch.tensor(labels)
            found = chain.log_probability(emissions, padded, MASK)
            assert float(found[row].exp()) == pytest.approx(float(probability))
            assert float(found[3]) == 0  # nothing to label


def test_marginals_and_the_best(chain, emissions):
    marginals, best = chain.marginals(emissions, MASK), chain.best(emissions, MASK)
    assert (marginals[~MASK] == 0).all() and (best[~MASK] == 0).all()
    for row, length in enumerate(LENGTHS[:3]):
        every, probabilities = exact(chain, emissions[row, :length])
        assert tuple(best[row, :length].tolist()) == every[int(probabilities.argmax())]
        for t, label in itertools.product(range(length), range(LABELS)):
            wanted = sum(float(p) for labels, p in zip(every, probabilities) if labels[t] == label)
            assert float(marginals[row, t, label]) == pytest.approx(wanted)


def test_padding_cannot_matter(chain, emissions):
    garbage = emissions.masked_fill(~MASK[..., None], 1e3)
    labels = torch.randint(LABELS, MASK.shape)
    other = labels.masked_fill(~MASK, 2)
    assert torch.equal(
        chain.log_probability(garbage, other, MASK),
        chain.log_probability(emissions, labels.masked_fill(~MASK, 0), MASK),
    )
    assert torch.equal(chain.best(garbage, MASK), chain.best(emissions, MASK))
    assert torch.equal(chain.marginals(garbage, MASK), chain.marginals(emissions, MASK))


def test_a_label_that_may_not_follow_never_does(chain, emissions):
    with torch.no_grad():
        chain.follows[0, 1] = -1e4
    best = chain.best(torch.randn(200, 8, LABELS, dtype=torch.double), torch.ones(200, 8, dtype=torch.bool))
    assert not ((best[:, :-1] == 0) & (best[:, 1:] == 1)).any()


def test_gradients_are_what_differences_say(chain, emissions):
    labels = torch.tensor([[0, 1, 2, 0], [1, 1, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0]])
    emissions.requires_grad_()
    assert torch.autograd.gradcheck(lambda e: chain.log_probability(e, labels, MASK), emissions)
    assert torch.autograd.gradcheck(
        lambda follows: torch.func.functional_call(Lp(chain), {"chain.follows": follows}, (emissions.detach(), labels)),
        chain.follows,
    )


class Lp(torch.nn.Module):
    def __init__(self, chain):
        super().__init__()
        self.chain = chain

    def forward(self, emissions, labels):
        return self.chain.log_probability(emissions, labels, MASK)
