package postgres

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// The server's ids of the types of parameters.
const (
	oidBytea      = 17
	oidInt8       = 20
	oidInt2       = 21
	oidText       = 25
	oidTID        = 27
	oidByteaArray = 1001
	oidInt2Array  = 1005
	oidTextArray  = 1009
	oidTIDArray   = 1010
	oidInt8Array  = 1016
	oidTime       = 1184
	oidTimeArray  = 1185
)

// epoch is the time that the server counts from, in microseconds of Unix time.
const epoch = 946_684_800_000_000

func int8Param(v int64) Param {
	return Param{oidInt8, binary.BigEndian.AppendUint64(nil, uint64(v))}
}

func int2Param(v int) Param {
	return Param{oidInt2, binary.BigEndian.AppendUint16(nil, uint16(v))} //nolint:gosec // priorities are small
}

func textParam(v string) Param { return Param{oidText, []byte(v)} }

// timeParam binds a time that came from the database; the zero time is before
// all others.
func timeParam(t time.Time) Param {
	v := int64(math.MinInt64) // -infinity
	if !t.IsZero() {
		v = t.UnixMicro() - epoch
	}
	return Param{oidTime, binary.BigEndian.AppendUint64(nil, uint64(v))}
}

// binaryArray begins an array of one dimension.
func binaryArray(elements int, elementOID uint32, size int) []byte {
	b := make([]byte, 0, 20+size)
	if elements == 0 {
		b = binary.BigEndian.AppendUint32(b, 0) // dimensions
		b = binary.BigEndian.AppendUint32(b, 0)
		return binary.BigEndian.AppendUint32(b, elementOID)
	}
	b = binary.BigEndian.AppendUint32(b, 1) // dimensions
	b = binary.BigEndian.AppendUint32(b, 1) // there may be NULLs
	b = binary.BigEndian.AppendUint32(b, elementOID)
	b = binary.BigEndian.AppendUint32(b, uint32(elements)) //nolint:gosec // a batch is small
	return binary.BigEndian.AppendUint32(b, 1)             // the first index
}

func int8ArrayParam(values []int64) Param {
	b := binaryArray(len(values), oidInt8, 12*len(values))
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, 8)
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return Param{oidInt8Array, b}
}

// valuesParam binds an array of values of one width; those without a value are
// NULL.
func valuesParam(arrayOID, elementOID uint32, n int, of func(i int) Param) Param {
	b := binaryArray(n, elementOID, 12*n)
	for i := range n {
		v := of(i).Value
		if v == nil {
			b = binary.BigEndian.AppendUint32(b, math.MaxUint32)
			continue
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(v))) //nolint:gosec // a few bytes
		b = append(b, v...)
	}
	return Param{arrayOID, b}
}

// textArrayParam binds texts; empty ones are NULL in a nullable array.
func textArrayParam(values []string, nullable bool) Param {
	size := 0
	for _, v := range values {
		size += len(v)
	}
	return textsParam(len(values), size, func(i int) string { return values[i] }, nullable)
}

// textsParam is textArrayParam for n texts, whose length together is size.
func textsParam(n, size int, of func(i int) string, nullable bool) Param {
	b := binaryArray(n, oidText, size+4*n)
	for i := range n {
		v := of(i)
		if v == "" && nullable {
			b = binary.BigEndian.AppendUint32(b, math.MaxUint32)
			continue
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(v))) //nolint:gosec // the server takes less than 1 GB
		b = append(b, v...)
	}
	return Param{oidTextArray, b}
}

// tracesParam binds canonical traceparents for the column trace; empty ones are
// NULL.
func tracesParam(values []string) Param {
	b := binaryArray(len(values), oidBytea, (4+traceSize)*len(values))
	for _, v := range values {
		if v == "" {
			b = binary.BigEndian.AppendUint32(b, math.MaxUint32)
			continue
		}
		b = appendTrace(binary.BigEndian.AppendUint32(b, traceSize), v)
	}
	return Param{oidByteaArray, b}
}

// placeArrayParam binds the places of rows; 0 is left out.
func placeArrayParam(places []uint64) Param {
	n := 0
	for _, p := range places {
		if p != 0 {
			n++
		}
	}
	b := binaryArray(n, oidTID, 10*n)
	for _, p := range places {
		if p != 0 {
			b = binary.BigEndian.AppendUint32(b, 6)
			b = binary.BigEndian.AppendUint32(b, uint32(p>>16)) //nolint:gosec // a block
			b = binary.BigEndian.AppendUint16(b, uint16(p))     //nolint:gosec // and what is in it
		}
	}
	return Param{oidTIDArray, b}
}

// decoder reads the values of a row one after the other.
type decoder struct {
	values [][]byte
	err    error
}

func (d *decoder) next(size int) []byte {
	if len(d.values) == 0 {
		d.err = fmt.Errorf("read a row: too few columns")
		return make([]byte, size)
	}
	v := d.values[0]
	d.values = d.values[1:]
	if len(v) != size {
		d.err = fmt.Errorf("read a row: %d bytes instead of %d", len(v), size)
		return make([]byte, size)
	}
	return v
}

func (d *decoder) int64() int64 { return int64(binary.BigEndian.Uint64(d.next(8))) }      //nolint:gosec // its bits
func (d *decoder) int32() int   { return int(int32(binary.BigEndian.Uint32(d.next(4)))) } //nolint:gosec // its bits

func (d *decoder) place() uint64 {
	v := d.next(6)
	return uint64(binary.BigEndian.Uint32(v))<<16 | uint64(binary.BigEndian.Uint16(v[4:]))
}

func (d *decoder) time() time.Time { return time.UnixMicro(d.int64() + epoch).UTC() }

// bytes returns the next value, nil for NULL. It is valid as long as the row.
func (d *decoder) bytes() []byte {
	if len(d.values) == 0 {
		d.err = fmt.Errorf("read a row: too few columns")
		return nil
	}
	v := d.values[0]
	d.values = d.values[1:]
	return v
}

func (d *decoder) nullInt64() sql.NullInt64 {
	if len(d.values) > 0 && d.values[0] == nil {
		d.values = d.values[1:]
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: d.int64(), Valid: true}
}

// int64s reads an array of bigint; NULL elements are math.MinInt64.
func (d *decoder) int64s(into []int64) []int64 {
	v := d.bytes()
	if len(v) < 20 {
		return into
	}
	n := int(binary.BigEndian.Uint32(v[12:]))
	for v = v[20:]; n > 0 && len(v) >= 4; n-- {
		size := binary.BigEndian.Uint32(v)
		v = v[4:]
		switch {
		case size == math.MaxUint32:
			into = append(into, math.MinInt64)
			continue
		case size != 8 || len(v) < 8:
			d.err = fmt.Errorf("read an array: an element of %d bytes", size)
			return into
		}
		into = append(into, int64(binary.BigEndian.Uint64(v))) //nolint:gosec // its bits
		v = v[8:]
	}
	return into
}
