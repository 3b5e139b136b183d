// Package dtmc predicts the throughput of a steady multi-model system from a
// discrete-time Markov chain, without simulating it, and finds the thresholds B
// with the highest prediction.
//
// # The system
//
// n requests (Config.Users) that never end visit K models. After a step of
// model i each of its requests goes, independently, to model j with probability
// R[i][j]; j = i stays. A request that stays feeds one row in its next step; one
// that comes to a model feeds all that was written since it left it. A step
// takes StepTime.Ns(requests, rows, context), every request counting with the
// same context, prompt + output/2.
//
// Over a long run a model that is visited feeds every visible token once,
// whoever wrote it. So with v the stationary distribution of R (v = vR) and τ(i)
// the visible tokens of one request's step, the mean rows of such a step are
//
//	τ(home) = 1 if the routed token is kept, else R[home][home];  τ(i) = 1,
//	r(i)    = Σj v(j)·τ(j) / v(i).
//
// The chain takes more than the mean: the distribution of the rows with which a
// request comes back, from the matrix, and of their sum over those who came to a
// batch, by Fourier transform. A step's time is its expectation over that, its
// spread up to four lengths. Rows of successive visits are drawn independently.
//
// Hand-offs take Config.HandoffNs, up to the shortest step of the model that
// sends: what a step hands off has then arrived when the next one ends. Models
// of Config.Interference slow each other down while their steps overlap: from
// one completion to the next the same ones are in flight, so the work of each
// shrinks at one pace, and nothing needs to be iterated.
//
// # Closed systems
//
// With Config.Closed every visible token ends its request with probability 1 /
// OutputTokens, and the next request of its user comes to home. Added to the
// system above are then: the prompt, fed in the first step at home; at every
// other model the prompt and what is written by then, fed in the first step of a
// first visit; chunks, if there are more rows than Model.ChunkTokens. How many
// first and later visits a request makes, and with how many rows, is summed over
// the exact lengths of Config.Outputs; a chain's step draws from that mix.
//
// # The chain
//
// Time is counted in quanta of q ns. A step of t ns takes ⌊t/q⌋ quanta or one
// more, the latter with probability t/q - ⌊t/q⌋, so that its mean is exact.
// Where a prefill makes a step long, quanta far ahead are counted coarsely, again
// at random with exact means. The chain is embedded at completions. Its state,
// taken when all launches of an instant are done, is for every model
//
//	(waiting requests, requests in flight, remaining quanta),
//
// where it matters how many of those who wait at an idle model stayed there; for
// every pair of models between which hand-offs take time, requests under way and
// the quanta until they arrive; and, for rules that take turns, the model that
// ran last (the highest index of those that ended at one instant). From a state,
// time jumps to the next completion, d ahead; every step that ends then scatters
// its b requests by the multinomial of its row of R; then the scheduler's own
// rule decides for all idle models at once, from the load before any of them
// starts, with thresholds from Thresholds.For(n) and Clamp. With π the stationary
// distribution,
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
// # How near it comes
//
// Largest differences from the simulator, Qwen3-0.6B beside 32B on A100s, two
// engines, one seed. Steady, 312 cells of 2 to 16 users, p from 0.02 to 0.6,
// return 1 and 0.35, B from 1 to n: 0.7 %; 96 cells of 32 users: 0.9 %. Hand-offs
// of 0.01, 0.5 and 2 ms, 72 cells of three routings: 0.7 %. Closed, 432 cells of
// three routings, prompts from 100 to 2000 and outputs from 256 to 2048 tokens:
// 2.2 %, on the cells from which ridesAlong was chosen. Models that slow each
// other down, 16 cells, one engine: 0.3 %. Most of it is the quantum. Where
// factors of interference differ between models in flight, work is rounded at
// every completion, and a coarse quantum costs more: three models at half the
// shortest step were 1.1 % off.
//
// # What it cannot do
//
// Longer hand-offs, MaxDelay, and matrices that let a request end in one of
// several groups of models for ever are NotApplicable, with the reason.
// Percentiles, arrivals, traces, queues for admission and KV pressure are not
// described at all.
package dtmc
