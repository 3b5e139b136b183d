package steptime

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// Times are added up as int64 counts of 2^-20 ns: fine enough that a slope of
// picoseconds per token survives, coarse enough that a step of 1,000 s fits.
const fractionBits = 20

// unitsMax is where a sum stops growing: two such terms still add up without
// overflow, and a step of 73 minutes is long past any use.
const unitsMax = math.MaxInt64 / 2

// msMax bounds every time that a user may state.
const msMax = 1e6

// unitsFromMs converts a time in ms. It goes through the shortest decimal that
// names the float, so that what a file calls 0.1 ms is exactly 100,000 ns and no
// processor's fusing of float operations can show in a result.
func unitsFromMs(ms float64) (int64, error) {
	switch {
	case math.IsNaN(ms) || math.IsInf(ms, 0):
		return 0, errors.New("is not a number; give a time in ms")
	case ms < 0:
		return 0, fmt.Errorf("is negative (%v); a time cannot be below 0 ms", ms)
	case ms > msMax:
		return 0, fmt.Errorf("is %v ms; at most %v ms are accepted (are the units right?)", ms, msMax)
	}
	return fixed(ms, 1e6<<fractionBits), nil
}

// fixed is x * per rounded to nearest, exactly as if x were the decimal it prints as.
func fixed(x float64, per int64) int64 {
	exact, ok := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64))
	if !ok {
		panic("steptime: a finite float has no decimal form")
	}
	exact.Mul(exact, new(big.Rat).SetInt64(per))
	half := new(big.Int).Rsh(exact.Denom(), 1)
	return new(big.Int).Div(half.Add(half, exact.Num()), exact.Denom()).Int64()
}

// nsFromUnits rounds to whole nanoseconds, at least 1.
func nsFromUnits(units int64) int64 {
	return max((units+1<<(fractionBits-1))>>fractionBits, 1)
}

// timesSaturating is a * b for non-negative factors, or unitsMax if that is less.
func timesSaturating(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high != 0 || low > unitsMax {
		return unitsMax
	}
	return int64(low)
}

// addSaturating is a + b, both from 0 to unitsMax, or unitsMax if that is less.
func addSaturating(a, b int64) int64 { return min(a+b, unitsMax) }

// scale is a * numerator / denominator rounded to nearest, for a and numerator of
// at least 0 and a positive denominator, or unitsMax if that is less.
func scale(a, numerator, denominator int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(numerator))
	low, carry := bits.Add64(low, uint64(denominator)/2, 0)
	high += carry
	if high >= uint64(denominator) {
		return unitsMax
	}
	quotient, _ := bits.Div64(high, low, uint64(denominator))
	return int64(min(quotient, unitsMax))
}

// between is the point at x on the line from (x0, y0) to (x1, y1), x0 <= x <= x1.
func between(x, x0, x1, y0, y1 int64) int64 {
	if y1 < y0 {
		return y0 - scale(y0-y1, x-x0, x1-x0)
	}
	return y0 + scale(y1-y0, x-x0, x1-x0)
}

// beyond is the point at x >= x1 on the same line drawn on, but never below y1: a
// dip in the last two measurements is noise, not a trend to be followed.
func beyond(x, x0, x1, y0, y1 int64) int64 {
	return addSaturating(y1, scale(max(y1-y0, 0), x-x1, x1-x0))
}
