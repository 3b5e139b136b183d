// Package tokenizer turns text into tokens and back, for models that come with
// a byte-level BPE tokenizer.json: those of the Qwen, Llama 3 and GPT-2
// families. It gives the ids that the reference library (Hugging Face
// tokenizers) gives, renders chat templates, turns tokens into text as they
// come, and finds stop strings in that text.
//
// A Tokenizer is built once and then only read: any number of goroutines may
// use it. Decoders and StopMatchers belong to one request each.
package tokenizer
