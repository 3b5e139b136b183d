package kernel

import "unsafe"

const (
	// tileRows rows of x are multiplied at once, or what is left of them.
	tileRows = 4
	// endColumns is a multiple of all tiles' columns.
	endColumns = 12
	// panelBytes of x stay in the second-level cache (1 MB on the machines that
	// have AVX-512, 256 KB or more on others) while all weights pass by once.
	panelBytes = 512 << 10
	// chunkBytes of weights stay in that cache while the rows of a panel pass by.
	chunkBytes = 128 << 10
	// callBytes of weights are read by one call at most, in about 50 µs: assembly
	// can't be interrupted, and a garbage collection makes all others wait for it.
	callBytes = 1 << 20
)

// ends hold the last values of rows whose length is no multiple of 32, padded
// with zeros, for the rows and columns of one call.
type ends[W stored] struct {
	x [tileRows * lanes]float32
	w [endColumns * lanes]W
}

// product computes the columns lo to hi of a product. Its loops decide which
// outputs are computed together and in which order, never how one is computed.
func product[W stored](y, x []float32, w []W, f format, s shape, lo, hi int) {
	if s.rows == 0 || s.k == 0 || lo == hi || level == plainGo {
		productGo(y, x, w, f, s, lo, hi)
		return
	}
	panel := max(tileRows, panelBytes/(4*s.k)/tileRows*tileRows)
	chunk := endColumns
	if s.k%lanes == 0 {
		bytes := callBytes
		if s.rows > tileRows {
			bytes = chunkBytes
		}
		chunk *= max(1, bytes/(s.k*int(unsafe.Sizeof(w[0])))/endColumns)
	}
	for first := 0; first < s.rows; first += panel {
		last := min(first+panel, s.rows)
		for j := lo; j < hi; j += chunk {
			columns := min(chunk, hi-j)
			for r := first; r < last; r += tileRows {
				tiles(y[r*s.yStride+j:], x[r*s.xStride:], w[j*s.wStride:], f, s, min(tileRows, last-r), columns)
			}
		}
	}
}

// tiles computes all columns of up to tileRows rows.
func tiles[W stored](y, x []float32, w []W, f format, s shape, rows, columns int) {
	blocks, rest := s.k/lanes, s.k%lanes
	if rest == 0 {
		productRows(y, s.yStride, x, s.xStride, w, s.wStride, f, rows, blocks, columns, nil)
		return
	}
	var end ends[W]
	for r := range rows {
		copy(end.x[r*lanes:][:rest], x[r*s.xStride+blocks*lanes:])
	}
	for j := range columns {
		copy(end.w[j*lanes:][:rest], w[j*s.wStride+blocks*lanes:])
	}
	productRows(y, s.yStride, x, s.xStride, w, s.wStride, f, rows, blocks, columns, &end)
}
