"""Options of the forecaster, with any weights."""

import pytest
import torch

from regard.assemble import build_model, resolve_model
from regard.errors import UserError
from regard.types import Batch

WINDOW, HORIZON, COLUMNS, ROWS = 12, 5, 3, 4
ENCODERS = {
    "rnn": {"kind": "recurrent", "cell": "rnn", "direction": "forward", "layers": 1},
    "lstm": {"kind": "recurrent", "cell": "lstm", "layers": 1},
    "transformer": {"kind": "transformer", "heads": 2, "feed_forward": 16, "layers": 1},
    "universal": {"kind": "universal", "heads": 2, "feed_forward": 16, "layers": 1},
    "none": {"kind": "none"},
}


def forecaster(encoder="lstm", patch=1, **more):
    torch.manual_seed(2)
    stem = {"kind": "features", "patch": patch}
    shape = {"kind": "forecaster", "stem": stem, "encoder": ENCODERS[encoder], "window": WINDOW, "horizon": HORIZON}
    return build_model({**shape, "width": 8, "dropout": 0.0, **more}, features=COLUMNS).eval()


@pytest.fixture
def source():
    torch.manual_seed(1)
    return torch.randn(ROWS, WINDOW, COLUMNS)


def everywhere(source):
    return torch.ones(source.shape[:2], dtype=torch.bool)


def forecasts(model, source):
    with torch.no_grad():
        return model(source, everywhere(source))


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("head", ["last", "mean", "flat"])
@pytest.mark.parametrize("apart", [True, False])
def test_every_encoder_and_head_gives_a_horizon_and_learns(encoder, head, apart, source):
    model = forecaster(encoder, patch=5, head=head, apart=apart)
    assert forecasts(model, source).shape == (ROWS, HORIZON, COLUMNS)
    target = torch.randn(ROWS, HORIZON, COLUMNS)
    mask = torch.ones(ROWS, HORIZON, dtype=torch.bool)
    model.train().loss(Batch(source, everywhere(source), target, mask, mask.numel())).total.backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert not idle


def test_the_loss_is_the_squared_error_of_what_is_wanted(source):
    model = forecaster()
    target = torch.randn(ROWS, HORIZON, COLUMNS)
    mask = torch.ones(ROWS, HORIZON, dtype=torch.bool)
    mask[1, 2:] = False
    with torch.no_grad():
        loss = model.loss(Batch(source, everywhere(source), target, mask, int(mask.sum())))
    errors = (forecasts(model, source) - target)[mask]
    torch.testing.assert_close(loss.total / loss.units, errors.square().mean())


@pytest.mark.parametrize("centre", ["last", "mean"])
def test_a_window_on_another_level_is_forecast_on_that_level(centre, source):
    model = forecaster(centre=centre)
    level = torch.tensor([5.0, -3.0, 100.0])
    torch.testing.assert_close(forecasts(model, source + level), forecasts(model, source) + level, atol=1e-3, rtol=1e-4)


def test_centred_on_the_mean_the_spread_goes_along_too(source):
    for centre, along in (("mean", True), ("last", False)):
        model = forecaster(centre=centre)
        same = torch.allclose(forecasts(model, 7 * source), 7 * forecasts(model, source), atol=1e-3)
        assert same is along


def test_uncentred_the_level_is_part_of_what_is_seen(source):
    model = forecaster(centre="none")
    assert not torch.allclose(forecasts(model, source + 5), forecasts(model, source) + 5, atol=0.1)


@pytest.mark.parametrize("centre", ["last", "mean", "none"])
def test_a_window_that_never_changes_stays_finite(centre):
    assert forecasts(forecaster(centre=centre), torch.full((2, WINDOW, COLUMNS), 4.0)).isfinite().all()


def test_apart_no_column_sees_another_and_all_are_treated_alike(source):
    model = forecaster(apart=True)
    changed = source.clone()
    changed[..., 1] += torch.randn(ROWS, WINDOW)
    before, after = forecasts(model, source), forecasts(model, changed)
    torch.testing.assert_close(after[..., [0, 2]], before[..., [0, 2]])
    assert not torch.allclose(after[..., 1], before[..., 1], atol=1e-3)
    torch.testing.assert_close(forecasts(model, source.flip(-1)), before.flip(-1))


def test_together_every_column_sees_the_others(source):
    model = forecaster(apart=False)
    changed = source.clone()
    changed[:, :-1, 1] += 1
    assert not torch.allclose(forecasts(model, changed)[..., 0], forecasts(model, source)[..., 0], atol=1e-4)


@pytest.mark.parametrize("head", ["last", "mean", "flat"])
@pytest.mark.parametrize("centre", ["last", "mean", "none"])
def test_padding_cannot_matter(head, centre, source):
    model = forecaster(head=head, centre=centre)
    mask = torch.arange(WINDOW) < torch.tensor([12, 7, 9, 3])[:, None]
    with torch.no_grad():
        together = model(source.masked_fill(~mask[..., None], 9.0), mask)
        for row, length in enumerate((12, 7, 9, 3)):
            alone = model(source[row : row + 1, :length], mask[row : row + 1, :length])
            torch.testing.assert_close(together[row], alone[0], atol=1e-5, rtol=1e-5)


def test_without_an_encoder_it_is_one_linear_map():
    """NLinear: the last value and a linear map of the differences from it."""
    model = forecaster("none", head="flat", width=1, stem={"kind": "features", "position": "none", "width": 1})
    source = torch.randn(2, WINDOW, COLUMNS)
    one, other = forecasts(model, source[:1]), forecasts(model, source[1:])
    middle = forecasts(model, source.mean(0, keepdim=True))
    torch.testing.assert_close(middle, (one + other) / 2)


@pytest.mark.parametrize(("key", "value"), [("head", "lest"), ("centre", "middle")])
def test_no_such_option(key, value):
    with pytest.raises(UserError, match=f"model.{key}: no '{value}'"):
        forecaster(**{key: value})


def test_a_recipe_states_the_horizon():
    assert resolve_model({"kind": "forecaster", "stem": "features", "horizon": 720})["horizon"] == 720
    with pytest.raises(UserError, match="model.horizon"):
        resolve_model({"kind": "forecaster", "stem": "features", "horizon": 0})
