// Package dtmc predicts the throughput of a steady multi-model system from a
// discrete-time Markov chain, without simulating it, and finds the thresholds B
// with the highest prediction.
//
// # The system
//
// n requests (Config.Users) that never end visit K models. After a step of
// model i each of its requests goes, independently, to model j with probability
// R[i][j]; j = i stays. A step of b requests takes
//
//	t(i, b) = StepTime.Ns(b, rows, b·(prompt + output/2)),
//	rows    = max(b, b·r(i) rounded to a whole number).
//
// The mean rows of a request's step, r(i), follow from the matrix alone. With v
// the stationary distribution of R (v = vR) and τ(i) the visible tokens of one
// request's step,
//
//	τ(home) = 1 if the routed token is kept, else R[home][home];  τ(i) = 1,
//	r(i)    = Σj v(j)·τ(j) / v(i),
//
// because over a long run a model that is visited feeds every visible token
// exactly once, whoever wrote it. Prompts are fed once in an endless run and so
// cost nothing.
//
// # The chain
//
// Time is counted in quanta of q ns. A step of t ns takes ⌊t/q⌋ quanta or one
// more, the latter with probability t/q - ⌊t/q⌋, so that its mean is exact. The
// chain is embedded at completions. Its state, taken when all launches of an
// instant are done, is for every model
//
//	(waiting requests, requests in flight, remaining quanta),
//
// and, for rules that take turns, the model that ran last (the highest index of
// those that ended at one instant). From a state, time jumps by the smallest
// remainder d; every step that ends then scatters its b requests by the
// multinomial of its row of R; then the scheduler's own rule decides for all
// idle models at once, from the load before any of them starts, with thresholds
// from Thresholds.For(n) and Clamp. With π the stationary distribution,
//
//	throughput = Σ π(s)·Σ(models ending in s) b·τ / (q·Σ π(s)·d(s)),
//
// and batches, utilisation and waiting by cause are ratios of the same kind.
//
// # The quantum
//
// If Config.QuantumNs is 0, a unit that divides every step is taken when the
// chain stays small enough, and then nothing is rounded. Otherwise the finest
// unit within a budget is; the error falls in proportion to it. For step times
// like Qwen3-0.6B and 32B on A100s it was at most 0.2 % at 16 users (units of
// 0.3 to 0.4 ms) and 1.0 % at 32 (1.2 ms). The unit does not depend on the
// thresholds, so a curve over B is of one piece.
//
// # The solution
//
// States that are reachable are explored; the closed class is kept (anything
// else is transient) and put in the order in which time flows, so that only
// completions of the slowest model lead backwards. Then one sweep of
// Gauss-Seidel, done as passing probability on, is the same as the chain watched
// at those backward edges, T, and few border states carry it. Small chains are
// solved by GTH elimination, larger ones by sweeps, accelerated by GMRES on
// z = Tz: the phase between two periodic models decays slowly or not at all, and
// its eigenvalues lie round the unit circle, where averaging helps little.
//
// Two starts are iterated at once. An answer needs both that they agree, in
// distribution and throughput, and that the residual |πP - π| is small; either
// alone has been seen to accept a wrong answer (solve_test.go). Where they do
// not agree, elimination takes over up to 2,000 states, and beyond that the
// answer is ErrSlowMixing. Nothing is approximated silently.
//
// # What it cannot do
//
// Hand-offs that take time, MaxDelay, and matrices that let a request end in one
// of several groups of models for ever are NotApplicable, with the reason.
// Percentiles, arrivals, traces, KV pressure and interference are not described
// at all.
package dtmc
