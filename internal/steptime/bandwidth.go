package steptime

// MemoryBytesPerS is the peak memory bandwidth of one of [GPUs], as its data
// sheet gives it; false for others.
func MemoryBytesPerS(gpu string) (float64, bool) {
	for i := range gpus {
		if gpus[i].name == gpu {
			return gpus[i].tbPerS * 1e12, true
		}
	}
	return 0, false
}
