// Package workload says which requests arrive when: open arrivals (Poisson, in
// bursts, or as a trace recorded them), the lengths of prompts and outputs,
// prefixes that prompts share, and classes of requests with limits of their
// own.
//
// A request is a function of the seed and its index: nothing that a scheduler
// does can change it. Requests come one at a time, so a million of them cost no
// memory.
package workload

import "github.com/tokenrouter/tokenrouter/algorithms"

// Purposes of this package's draws, with those in text.go. A number is part of
// what a seed means: it stays what it is, and none is used twice.
const (
	purposeOutputLength algorithms.Purpose = 0x5100
	purposeRequest      algorithms.Purpose = 0x5102
	purposePromptLength algorithms.Purpose = 0x5104
	purposeQuery        algorithms.Purpose = 0x5105
	purposeGap          algorithms.Purpose = 0x5203
	purposeBurst        algorithms.Purpose = 0x5204
	purposeClass        algorithms.Purpose = 0x5205
	purposeShares       algorithms.Purpose = 0x5206
	purposePrefix       algorithms.Purpose = 0x5207
	purposePrefixText   algorithms.Purpose = 0x5208
	purposePair         algorithms.Purpose = 0x5209
)
