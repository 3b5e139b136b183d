// Package cpu is an engine in Go for the machine's own processors. It runs
// Qwen3 and Llama as package model opens them, on a paged KV cache, with decode,
// extend and chunks of prefill mixed in one step. It keeps no copy of the weights:
// bf16, f16 and f32 are multiplied as they lie in the file, and all sums are in
// float32.
//
// # A step
//
// Rows are token positions. A layer is eight phases; the items of a phase, over
// which the threads share it, are in brackets. R is the rows, H the hidden size,
// Q and K the query and the KV heads, D a head's dimensions, I the width of the
// MLP, V the vocabulary, S the rows that sample.
//
//	x        [R, H]     embedding, in the first layer                   (rows)
//	normed   [R, H]     RMS norm of x                                   (rows)
//	q, k, v  [R, Q·D], [R, K·D], [R, K·D]  normed·Wᵀ                    (columns)
//	q, k     …          norm of each head, rotary embedding; k, v into blocks (rows)
//	attended [R, Q·D]   softmax(q·Kᵀ)·V over the positions of the blocks (tiles)
//	x       += [R, H]   attended·Wᵀ                                     (columns)
//	normed   [R, H]     RMS norm of x                                   (rows)
//	gated    [R, I]     silu(normed·Gᵀ) ⊙ normed·Uᵀ                     (columns)
//	x       += [R, H]   gated·Wᵀ                                        (columns)
//
// Only rows that sample go on through the last norm and the head to logits
// [S, V], from which package sampling chooses the tokens and computes the signals.
// A step of more rows than Options.MaxRows is run in several passes.
//
// A KV block holds BlockTokens positions of all layers, in float32:
// [layer][block][K, V][KV head][position][D].
//
// # The same bits
//
// What a sequence gets is a function of the model and of its own tokens, seed and
// sampling, bit for bit. It does not depend on the sequences beside it, on how its
// tokens are cut into steps and passes, on BlockTokens or which blocks it has, on
// the number of threads, on the instruction set of package kernel, or on what was
// evicted and fed again. This is so because
//
//   - a row meets other rows in attention only, and there it reads their K and V
//     from the cache, where they are the same however they came there;
//   - each output of a matrix is one dot product with the fixed tree of package
//     kernel, and threads share outputs, never a sum;
//   - a query's scores lie side by side by position, however blocks and tiles cut
//     their computation, so its softmax has one order; and the weighted sum of
//     values goes through the positions one by one, in their order, with one fused
//     multiply-add each, so that a cut between two positions changes nothing;
//   - what is left is done element by element, with each product rounded before it
//     is added, so that no compiler may fuse the two.
//
// Tests hold this against random schedules, and the logits against those of
// transformers and of a twin in float64.
package cpu
