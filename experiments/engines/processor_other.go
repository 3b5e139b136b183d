//go:build !linux && !darwin

package engines

import "runtime"

// processor is not known here beyond its kind.
func processor() string { return runtime.GOARCH }
