package client

import (
	"encoding"
	"encoding/json"
	"reflect"
	"unicode/utf8"
	"unsafe"
)

var (
	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
)

// holdsInvalid reports whether a value holds a string of invalid UTF-8 that
// JSON would show. Inside a type with a MarshalJSON of its own every field
// counts, exported or not, since such methods mostly encode a twin of it.
func holdsInvalid(value any) bool {
	w := utf8Walk{seen: make(map[visit]bool)}
	return w.invalid(reflect.ValueOf(value), false)
}

type utf8Walk struct {
	seen map[visit]bool
}

// visit is a place that has been looked at; what JSON does not show may be
// cyclic.
type visit struct {
	at  unsafe.Pointer
	of  reflect.Type
	len int
}

func (w *utf8Walk) invalid(v reflect.Value, all bool) bool {
	if !v.IsValid() {
		return false
	}
	t := v.Type()
	custom := t.Implements(marshalerType)
	if t.Implements(textMarshalerType) && !custom && v.CanInterface() {
		return invalidText(v)
	}
	if v.Kind() == reflect.Struct {
		p := reflect.PointerTo(t)
		custom = custom || p.Implements(marshalerType) || p.Implements(textMarshalerType)
	}
	all = all || custom
	switch v.Kind() {
	case reflect.String:
		return !utf8.ValidString(v.String())
	case reflect.Interface:
		return w.invalid(v.Elem(), all)
	case reflect.Pointer:
		return w.first(v, 0) && w.invalid(v.Elem(), all)
	case reflect.Struct:
		return w.fields(v, all)
	case reflect.Map:
		return w.first(v, 0) && w.entries(v, all)
	case reflect.Slice:
		return w.first(v, v.Len()) && w.elements(v, all)
	case reflect.Array:
		return w.elements(v, all)
	default:
		return false
	}
}

// first reports whether v, a reference, has not been looked at yet.
func (w *utf8Walk) first(v reflect.Value, length int) bool {
	place := visit{v.UnsafePointer(), v.Type(), length}
	if v.IsNil() || w.seen[place] {
		return false
	}
	w.seen[place] = true
	return true
}

func (w *utf8Walk) fields(v reflect.Value, all bool) bool {
	for field, value := range v.Fields() {
		shown := field.Anonymous || field.IsExported() && field.Tag.Get("json") != "-"
		if (all || shown) && w.invalid(value, all) {
			return true
		}
	}
	return false
}

func (w *utf8Walk) entries(v reflect.Value, all bool) bool {
	for key, value := range v.Seq2() {
		if w.invalid(key, all) || w.invalid(value, all) {
			return true
		}
	}
	return false
}

func (w *utf8Walk) elements(v reflect.Value, all bool) bool {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		return false // base64, or raw JSON that is looked at as a whole
	}
	for i := range v.Len() {
		if w.invalid(v.Index(i), all) {
			return true
		}
	}
	return false
}

func invalidText(v reflect.Value) bool {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return false
	}
	text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
	return err == nil && !utf8.Valid(text)
}
