"""Wrong twins of the particle filter for p(y)^alpha, each with one defect that public code has had.

`Filter` is right: temperature proposal, multinomial resampling after every step but the last, all populations side by side in
NumPy. A twin overrides one method. The damage is that to two particles on case 1 of the reference at alpha = 2, from 10^6 runs.
"""

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import logsumexp

from theory.exact import ContextTable

Weights = Float64[np.ndarray, "M N"]


class Filter:
    """M populations of N particles, run once by `run`."""

    def __init__(
        self, table: ContextTable, alpha: float, shape: tuple[int, int], seed: int
    ) -> None:
        """Start all particles at the empty prefix."""
        self.table, self.alpha = table, alpha
        self.rng = np.random.default_rng(seed)
        self.tokens = np.zeros((*shape, table.horizon), np.int64)
        self.lengths = np.zeros(shape, np.int64)
        self.context = np.full(shape, table.initial)
        self.ended = np.zeros(shape, bool)
        self.log_weights = np.zeros(shape)
        self.log_p = np.zeros(shape)
        self.log_gain = np.zeros(shape)
        self.log_Z = np.zeros(shape[0])
        self.log_mean = np.zeros(shape[0])

    def run(self) -> "Filter":
        """Propose, weigh and resample to the horizon; log Z is the sum of what each step adds to it."""
        for t in range(self.table.horizon):
            active = ~self.ended
            self.propose(t)
            self.log_weights = self.weighed(t, active)
            now = _log_mean(self.log_weights)
            self.log_Z += now - self.log_mean
            self.log_mean = now
            if t < self.table.horizon - 1:
                self.resample(self.uniforms(t))
        return self

    def propose(self, t: int) -> None:
        """One token from temperature 1/alpha for every particle that has not ended."""
        active = ~self.ended
        log_probs = self.table.log_probs[self.context]
        scores = self.alpha * log_probs
        token = np.argmax(scores + self.rng.gumbel(size=scores.shape), axis=-1)
        log_p = np.take_along_axis(log_probs, token[..., None], axis=-1)[..., 0]
        self.log_gain = np.where(active, self.gain(scores, log_p), self.log_gain)
        self.tokens[..., t] = np.where(active, token, 0)
        self.lengths += active
        self.log_p += np.where(active, log_p, 0.0)
        following = self.table.next_context[self.context, token]
        self.ended = self.ended | np.isin(token, self.table.eos) & active
        self.context = np.where(self.ended, self.table.initial, following)

    def gain(self, scores: Float64[np.ndarray, "M N V"], log_p: Weights) -> Weights:
        """Log weight of a token: alpha log p - log q = log z."""
        log_z = np.asarray(logsumexp(scores, axis=-1))
        return self.alpha * log_p - (self.alpha * log_p - log_z)

    def weighed(self, t: int, active: np.ndarray) -> Weights:
        """Particles that have ended keep their weight."""
        return self.log_weights + np.where(active, self.log_gain, 0.0)

    def uniforms(self, t: int) -> Weights:
        """Fresh at every step."""
        return self.rng.random(self.log_weights.shape)

    def resample(self, uniforms: Weights) -> None:
        """Multinomial; children carry the mean weight."""
        shares = np.exp(self.log_weights - logsumexp(self.log_weights, axis=1, keepdims=True))
        below = np.cumsum(shares, axis=1)[:, None, :-1] <= uniforms[:, :, None]
        self.move(below.sum(axis=2))
        self.log_weights = np.broadcast_to(_log_mean(self.log_weights)[:, None], shares.shape)

    def move(self, ancestors: Int64[np.ndarray, "M N"]) -> None:
        """Everything that belongs to a particle moves with it."""
        rows = np.arange(ancestors.shape[0])[:, None]
        for name in ("tokens", "lengths", "context", "ended", "log_p", "log_gain"):
            setattr(self, name, getattr(self, name)[rows, ancestors])

    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and lengths of one particle of each population, in proportion to the weights."""
        race = self.log_weights + self.rng.gumbel(size=self.log_weights.shape)
        rows, slots = np.arange(race.shape[0]), race.argmax(axis=1)
        return self.tokens[rows, slots], self.lengths[rows, slots]


def _log_mean(log_weights: Weights) -> Float64[np.ndarray, " M"]:
    return logsumexp(log_weights, axis=1) - np.log(log_weights.shape[1])


def evidence_by_increments(log_weights: Weights, gains: Weights) -> Float64[np.ndarray, " M"]:
    """Without resampling, the mean weight so far times the mean increment: 3.0 for weights 1, 3 and increments 2, 1, and not 2.5."""
    return _log_mean(log_weights) + _log_mean(gains)


class EvidenceLostAtResampling(Filter):
    """Weights are set to 1 at resampling, and Z_hat is the mean of the last weights: E[Z_hat] = 5.42 Z."""

    def run(self) -> "Filter":
        """See the class."""
        super().run()
        self.log_Z = _log_mean(self.log_weights)
        return self

    def resample(self, uniforms: Weights) -> None:
        """See the class."""
        super().resample(uniforms)
        self.log_weights = np.zeros_like(self.log_weights)


class EvidenceCountedAgain(Filter):
    """Weights keep the evidence, and log Z adds their whole mean at every step: E[Z_hat] = .095 Z."""

    def run(self) -> "Filter":
        """See the class."""
        means: list[np.ndarray] = []
        weighed = self.weighed

        def recorded(t: int, active: np.ndarray) -> Weights:
            log_weights = weighed(t, active)
            means.append(_log_mean(log_weights))
            return log_weights

        self.weighed = recorded
        super().run()
        self.log_Z = np.sum(means, axis=0)
        return self


class AbsoluteWeights(Filter):
    """Each step multiplies by the weight of the whole prefix in place of the last token's: E[Z_hat] = .440 Z."""

    def gain(self, scores: Float64[np.ndarray, "M N V"], log_p: Weights) -> Weights:
        """See the class."""
        return self.log_gain + super().gain(scores, log_p)


class FinishedParticlesReweighted(Filter):
    """The last token's weight counts again at every step after eos: E[Z_hat] = .564 Z."""

    def weighed(self, t: int, active: np.ndarray) -> Weights:
        """See the class."""
        return self.log_weights + self.log_gain


class LogNormaliserDropped(Filter):
    """Log q is alpha log p, not normalised, so that nothing weighs anything: Z_hat = 1 = 6.50 Z."""

    def gain(self, scores: Float64[np.ndarray, "M N V"], log_p: Weights) -> Weights:
        """See the class."""
        return np.zeros_like(log_p)


class LastReweightMissing(Filter):
    """The run ends with a proposal whose weights are never taken: E[Z_hat] = 1.17 Z."""

    def weighed(self, t: int, active: np.ndarray) -> Weights:
        """See the class."""
        is_last = t == self.table.horizon - 1
        return self.log_weights if is_last else super().weighed(t, active)


class ModelStateLeftBehind(Filter):
    """Ancestors are applied to tokens and not to the model's state: 5.4 % of the draws
    are no sequence of the model."""

    def move(self, ancestors: Int64[np.ndarray, "M N"]) -> None:
        """See the class."""
        context = self.context
        super().move(ancestors)
        self.context = context


class ResampleKeyReused(Filter):
    """The uniforms of the first resampling serve all others: the law of a draw
    moves by .005 in total variation (.013 on case 3)."""

    def uniforms(self, t: int) -> Weights:
        """See the class."""
        if t == 0:
            self.first = super().uniforms(t)
        return self.first


class RampWithoutCatchUp(Filter):
    """Exponents rise from 1 and the run ends below alpha, without a last reweighting: E[Z_hat] = 2.44 Z."""

    def __init__(
        self, table: ContextTable, alpha: float, shape: tuple[int, int], seed: int
    ) -> None:
        """See the class."""
        super().__init__(table, alpha, shape, seed)
        self.target, self.alpha = alpha, 1.0

    def weighed(self, t: int, active: np.ndarray) -> Weights:
        """See the class."""
        log_weights = super().weighed(t, active)
        raised = 1.0 + (self.target - 1.0) * (t + 1) / (2 * self.table.horizon)
        log_weights = log_weights + (raised - self.alpha) * self.log_p
        self.alpha = raised
        return log_weights
