// Package profiling times the steps of an engine, alone and beside another one,
// and makes profiles of what it finds: the same files that the simulator and the
// chain read. It knows engines by package backend's interface alone, so it
// measures whatever runs there.
package profiling
