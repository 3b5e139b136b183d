// Package cpu is an engine in plain Go for the machine's own processors.
package cpu
