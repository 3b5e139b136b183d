package scheduler

// Clamp writes into dst the thresholds in force for live requests over all
// models and returns it. With K models nothing can stall iff the thresholds sum
// to at most live + K - 1: otherwise every model may sit one short of its own.
// Each is first cut to its model's maxRunning (0 = no limit), then the largest
// (ties: the highest index) loses 1 until the sum fits; none falls below 1.
// live 0 counts as 1.
func Clamp(dst, asked, maxRunning []int, live int) []int {
	dst = dst[:0]
	sum := 0
	for i, b := range asked {
		if maxRunning[i] > 0 && b > maxRunning[i] {
			b = maxRunning[i]
		}
		b = max(b, 1)
		dst = append(dst, b)
		sum += b
	}
	for limit := max(live, 1) + len(asked) - 1; sum > limit; sum-- {
		largest := 0
		for i, b := range dst {
			if b >= dst[largest] {
				largest = i
			}
		}
		dst[largest]--
	}
	return dst
}
