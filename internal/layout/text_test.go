package layout_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// text demands that an expression's text is the program's own.
func (o *origin) text(e ast.Expr) {
	e = ast.Unparen(e)
	tv := o.info.Types[e]
	if tv.Value != nil || tv.IsNil() || tv.IsType() || harmless(tv.Type) {
		return
	}
	switch e := e.(type) {
	case *ast.BasicLit:
	case *ast.BinaryExpr:
		if e.Op == token.ADD { // all others make numbers
			o.text(e.X)
			o.text(e.Y)
		}
	case *ast.Ident:
		o.object(e, o.info.Uses[e])
	case *ast.SelectorExpr:
		if s := o.info.Selections[e]; s != nil {
			o.object(e, s.Obj())
		} else {
			o.outside(e, "%s is not of this package", e.Sel.Name)
		}
	case *ast.IndexExpr:
		o.text(e.X)
	case *ast.SliceExpr:
		o.text(e.X)
	case *ast.StarExpr:
		o.text(e.X)
	case *ast.UnaryExpr:
		o.text(e.X)
	case *ast.TypeAssertExpr:
		o.text(e.X)
	case *ast.CompositeLit:
		if _, ok := tv.Type.Underlying().(*types.Struct); ok {
			return // its fields are asked for by themselves
		}
		for _, v := range e.Elts {
			if kv, ok := v.(*ast.KeyValueExpr); ok {
				v = kv.Value
			}
			o.text(v)
		}
	case *ast.FuncLit:
		o.returns(e, e.Type, e.Body, 0)
	case *ast.CallExpr:
		o.result(e, 0)
	default:
		o.outside(e, "an expression that is not understood")
	}
}

// harmless reports whether values of a type cannot be text.
func harmless(t types.Type) bool {
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsNumeric|types.IsBoolean) != 0
}

// object demands it of everything that a variable, field or parameter may
// hold.
func (o *origin) object(at ast.Expr, obj types.Object) {
	switch obj := obj.(type) {
	case *types.Const, *types.Nil:
		return
	case *types.Func:
		o.function(at, obj, 0)
		return
	case *types.Var:
		if obj.Pkg() != o.pkg || harmless(obj.Type()) || o.seen[obj] {
			if obj.Pkg() != o.pkg {
				o.outside(at, "%s is not of this package", obj.Name())
			}
			return
		}
	default:
		o.outside(at, "it is not known what this is")
		return
	}
	o.seen[obj] = true
	if p, ok := o.params[obj]; ok {
		o.parameter(at, obj, p)
	}
	for _, v := range o.assigned[obj] {
		switch {
		case v.index == -2:
			o.outside(v.expr, "%s is written by another function", obj.Name())
		case v.index > 0:
			if call, ok := ast.Unparen(v.expr).(*ast.CallExpr); ok {
				o.result(call, v.index)
			} // else the second value is a bool
		default:
			o.text(v.expr)
		}
	}
}

// parameter demands it of the arguments, which assigned has for functions with
// a name.
func (o *origin) parameter(at ast.Expr, obj types.Object, p parameter) {
	switch f := p.of.(type) {
	case *ast.FuncDecl:
		fn := o.info.Defs[f.Name]
		calls, holders := o.callsOf(func(e ast.Expr) bool {
			name, ok := e.(*ast.Ident)
			return ok && o.info.Uses[name] == fn
		})
		if f.Name.IsExported() || o.loose[fn] > holders {
			o.outside(at, "parameter %s of %s, which others call", obj.Name(), f.Name.Name)
		}
		o.arguments(calls, p)
	case *ast.FuncLit:
		calls, holders := o.callsOf(func(e ast.Expr) bool { return e == ast.Expr(f) })
		if holders == 0 {
			o.outside(at, "parameter %s of a function that others call", obj.Name())
		}
		o.arguments(calls, p)
	}
}

func (o *origin) arguments(calls []*ast.CallExpr, p parameter) {
	for _, c := range calls {
		for i, a := range c.Args {
			if i == p.index || p.variadic && i > p.index {
				o.text(a)
			}
		}
	}
}

// callsOf finds the calls of a function through the variables or parameters
// that hold it, and how many these are.
func (o *origin) callsOf(is func(ast.Expr) bool) (calls []*ast.CallExpr, holders int) {
	for holder, values := range o.assigned {
		for _, v := range values {
			if is(ast.Unparen(v.expr)) {
				calls = append(calls, o.calls[holder]...)
				holders++
			}
		}
	}
	return calls, holders
}

var (
	// assembled are functions whose result holds nothing but their arguments.
	assembled = map[string][]string{
		"strings": {"Join", "Repeat", "Replace", "ReplaceAll", "TrimSuffix", "TrimPrefix", "TrimSpace", "NewReplacer", "Clone"},
		"fmt":     {"Sprintf", "Sprint", "Sprintln"},
		"slices":  {"Concat", "Clone"},
		"sync":    {"OnceValue"},
	}
	// numbers are packages whose functions turn numbers into text.
	numbers = map[string][]string{"strconv": {"Itoa", "FormatInt", "FormatUint", "FormatBool", "AppendInt", "AppendUint"}, "strings": {"Count"}}
	// keep are methods whose result holds nothing but their receiver and
	// arguments.
	keep = []string{"Replace", "String", "Load", "LoadOrStore"}
)

// result demands it of one result of a call.
func (o *origin) result(call *ast.CallExpr, index int) {
	fun := ast.Unparen(call.Fun)
	if o.info.Types[fun].IsType() {
		o.text(call.Args[0])
		return
	}
	switch f := fun.(type) {
	case *ast.FuncLit:
		o.returns(f, f.Type, f.Body, index)
		return
	case *ast.StarExpr:
		o.text(f.X)
		return
	case *ast.Ident:
		switch obj := o.info.Uses[f].(type) {
		case *types.Builtin:
			o.all(call.Args)
			return
		case *types.Func:
			if !slices.Contains(o.quotes, obj.Name()) {
				o.function(call, obj, index)
			}
			return
		case *types.Var:
			o.held(call, obj, index)
			return
		}
	case *ast.SelectorExpr:
		if s := o.info.Selections[f]; s != nil {
			switch obj := s.Obj().(type) {
			case *types.Func:
				if o.declared(obj) != nil {
					o.function(call, obj, index)
					return
				}
			case *types.Var:
				o.held(call, obj, index)
				return
			}
		}
		if x, ok := f.X.(*ast.Ident); ok {
			if p, ok := o.info.Uses[x].(*types.PkgName); ok {
				name := p.Imported().Path()
				switch {
				case slices.Contains(numbers[name], f.Sel.Name):
				case slices.Contains(assembled[name], f.Sel.Name):
					o.all(call.Args)
				default:
					o.outside(call, "the result of %s.%s", name, f.Sel.Name)
				}
				return
			}
		}
		if slices.Contains(o.quotes, f.Sel.Name) {
			return
		}
		if slices.Contains(keep, f.Sel.Name) {
			o.text(f.X)
			o.all(call.Args)
			return
		}
		o.outside(call, "the result of %s", f.Sel.Name)
		return
	}
	o.outside(call, "the result of a call that is not understood")
}

func (o *origin) all(args []ast.Expr) {
	for _, a := range args {
		o.text(a)
	}
}

// function demands it of what a function of the package returns.
func (o *origin) function(at ast.Expr, fn *types.Func, index int) {
	d := o.declared(fn)
	if d == nil || d.Body == nil {
		o.outside(at, "the result of %s", fn.Name())
		return
	}
	o.returns(d, d.Type, d.Body, index)
}

// held demands it of the functions that a variable may hold.
func (o *origin) held(at ast.Expr, v *types.Var, index int) {
	key := resultKey{v, index}
	if o.seen[key] {
		return
	}
	o.seen[key] = true
	values := o.assigned[v]
	if p, ok := o.params[v]; ok {
		if f, ok := p.of.(*ast.FuncLit); ok {
			calls, _ := o.callsOf(func(e ast.Expr) bool { return e == ast.Expr(f) })
			for _, c := range calls {
				values = append(values, value{c.Args[p.index], 0})
			}
		}
	}
	if len(values) == 0 {
		o.outside(at, "the result of %s, which others give", v.Name())
	}
	for _, value := range values {
		switch e := ast.Unparen(value.expr).(type) {
		case *ast.FuncLit:
			o.returns(e, e.Type, e.Body, index)
		default:
			o.text(e)
		}
	}
}

// resultKey is one result of a function.
type resultKey struct {
	of    any
	index int
}

// returns demands it of one result of a function's return statements.
func (o *origin) returns(of any, t *ast.FuncType, body *ast.BlockStmt, index int) {
	key := resultKey{of, index}
	if o.seen[key] {
		return
	}
	o.seen[key] = true
	if t.Results != nil {
		i := 0
		for _, field := range t.Results.List {
			for _, name := range field.Names {
				if i == index {
					o.object(name, o.info.Defs[name])
				}
				i++
			}
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			switch {
			case index < len(n.Results) && (len(n.Results) > 1 || index == 0 && !o.tuple(n.Results[0])):
				o.text(n.Results[index])
			case len(n.Results) == 1:
				if call, ok := ast.Unparen(n.Results[0]).(*ast.CallExpr); ok {
					o.result(call, index)
				}
			}
		}
		return true
	})
}

func (o *origin) tuple(e ast.Expr) bool {
	_, ok := o.info.Types[e].Type.(*types.Tuple)
	return ok
}
