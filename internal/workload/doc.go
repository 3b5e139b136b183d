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

// purposeQuery is as old as the first three below, and lies between them.
const purposeQuery algorithms.Purpose = 0x5105

// Purposes of this package's draws: part of what a seed means. The first three
// are older than the package.
const (
	purposeOutputLength algorithms.Purpose = 0x5100
	purposeRequest      algorithms.Purpose = 0x5102
	purposePromptLength algorithms.Purpose = 0x5104

	purposeGap algorithms.Purpose = 0x5200 + iota
	purposeBurst
	purposeClass
	purposeShares
	purposePrefix
	purposePrefixText
	purposePair
)
