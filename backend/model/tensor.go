package model

import (
	"fmt"
	"math"
	"unsafe"
)

// Dtype is the format of a weight.
type Dtype uint8

// The formats that engines read. The zero Dtype is that of an empty Tensor.
const (
	BF16 Dtype = iota + 1 // the upper half of a float32
	F16                   // IEEE half precision
	F32
)

// String is the name in a safetensors header.
func (d Dtype) String() string {
	switch d {
	case BF16:
		return "BF16"
	case F16:
		return "F16"
	case F32:
		return "F32"
	}
	return "none"
}

// Size is in bytes.
func (d Dtype) Size() int {
	switch d {
	case BF16, F16:
		return 2
	case F32:
		return 4
	}
	return 0
}

// dtypeOf is the inverse of String, and 0 for all other names.
func dtypeOf(name string) Dtype {
	for _, d := range []Dtype{BF16, F16, F32} {
		if d.String() == name {
			return d
		}
	}
	return 0
}

// Tensor is a view of weights in row-major order. They may lie in a file that
// is mapped read-only: writing to them ends the process.
type Tensor struct {
	Name  string // as in the file
	Dtype Dtype
	Shape []int // [out, in] of a matrix, [n] of a norm

	U16 []uint16  // the weights' bits if Dtype is BF16 or F16, else nil
	F32 []float32 // the weights if Dtype is F32, else nil

	path string // of the file, for errors
}

// Empty says that the architecture has no such tensor.
func (t *Tensor) Empty() bool { return t.Dtype == 0 }

// Len counts the weights.
func (t *Tensor) Len() int { return len(t.U16) + len(t.F32) }

// Bytes is the size of the weights.
func (t *Tensor) Bytes() int64 { return int64(t.Len()) * int64(t.Dtype.Size()) }

// Rows is the outer dimension.
func (t *Tensor) Rows() int { return t.Shape[0] }

// Cols is the inner dimension: the length of a row; that of a norm is 1.
func (t *Tensor) Cols() int {
	if len(t.Shape) < 2 {
		return 1
	}
	return t.Shape[1]
}

// Floats widens the weights from index from on into dst, all of which it fills.
// Widening is exact.
func (t *Tensor) Floats(dst []float32, from int) {
	switch t.Dtype {
	case BF16:
		for i, bits := range t.U16[from : from+len(dst)] {
			dst[i] = math.Float32frombits(uint32(bits) << 16)
		}
	case F16:
		for i, bits := range t.U16[from : from+len(dst)] {
			dst[i] = widenHalf(bits)
		}
	default:
		copy(dst, t.F32[from:from+len(dst)])
	}
}

// widenHalf is exact; NaN stays NaN.
func widenHalf(bits uint16) float32 {
	sign := uint32(bits&0x8000) << 16
	exponent, fraction := uint32(bits>>10&0x1f), uint32(bits&0x3ff)
	switch exponent {
	case 0: // zero or below the normal range: fraction × 2^-24
		v := float32(fraction) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// view lays a tensor over bytes of a file. Bytes that do not lie as the type
// needs them, which a header of odd length causes, are copied first.
func view(name string, dtype Dtype, shape []int, data []byte) Tensor {
	t := Tensor{Name: name, Dtype: dtype, Shape: shape}
	n := len(data) / dtype.Size()
	if n == 0 {
		return t
	}
	first := unsafe.Pointer(unsafe.SliceData(data))
	aligned := uintptr(first)%uintptr(dtype.Size()) == 0
	if dtype == F32 {
		if aligned {
			t.F32 = unsafe.Slice((*float32)(first), n)
			return t
		}
		t.F32 = make([]float32, n)
	} else {
		if aligned {
			t.U16 = unsafe.Slice((*uint16)(first), n)
			return t
		}
		t.U16 = make([]uint16, n)
	}
	copy(t.raw(), data)
	return t
}

// raw is the weights as bytes in the order of this machine.
func (t *Tensor) raw() []byte {
	if t.Dtype == F32 {
		return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(t.F32))), 4*len(t.F32))
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(t.U16))), 2*len(t.U16))
}

// bigEndian machines would read every weight with its bytes swapped.
func bigEndian() bool {
	one := uint16(1)
	return *(*byte)(unsafe.Pointer(&one)) == 0
}

func shapeText(shape []int) string { return fmt.Sprint(shape) }
