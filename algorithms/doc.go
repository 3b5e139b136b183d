// Package algorithms holds the routing algorithms: who writes the next token.
//
// An algorithm is three functions. Route runs after every forward step and
// answers 0 to stay or the 1-based position of a model. Send packs the request
// for the peer and says whether the token just sampled goes with it. Receive
// turns what comes back into tokens of the request. They see one request at a
// time; batching, KV and timing are the scheduler's business.
//
// The package imports the standard library only, and nothing in it reads a
// clock or a random source: every draw is a function of the request's seed, a
// position and a purpose.
package algorithms
