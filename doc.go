// Package tokenrouter is the root of a module for token-level routing between
// language models. It holds no code: only the tests that keep the layers apart
// and the files small. The program is cmd/tokenrouter, the design DESIGN.md.
package tokenrouter
