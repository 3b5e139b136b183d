// Package backend is the real side: engines that run a model's forward pass,
// and around them what turns a client's text into rows and back.
//
// An engine sees rows of token ids with KV block tables and knows no request.
// One call feeds a batch of rows and gives, for each sequence, the sampled
// token and the signals that the routing algorithm declared. Requests, their
// order and their KV blocks belong to package scheduler, whose core is driven
// by backend/subserver; an engine and the front door never import it.
package backend
