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

// MemoryBytes is the memory of one of [GPUs]; false for others.
func MemoryBytes(gpu string) (float64, bool) {
	for i := range gpus {
		if gpus[i].name == gpu {
			return gpus[i].memoryGiB * (1 << 30), true
		}
	}
	return 0, false
}
