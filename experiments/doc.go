// Package experiments reads experiment files, runs what they describe and
// writes what came out.
//
// An experiment file is TOML: one question, and the models, routing, workload
// and systems that answer it. Load checks every key and returns a Plan: the
// cells of the experiment, one for each combination of swept values, system,
// place to run and seed. Run evaluates the cells on several workers and writes
// one folder, whose bytes do not depend on the number of workers.
package experiments
