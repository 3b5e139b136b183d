// Package engines opens the models that experiments and verbs run on this
// machine: a folder as Hugging Face stores them, a known shape with made-up
// weights, or a toy.
package engines
