package layout_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// origin follows the text of every statement of one package back to where it
// comes from, over variables, fields, parameters, results and builders.
// Constants and numbers are fine; whatever is left over is from outside.
type origin struct {
	fset   *token.FileSet
	info   *types.Info
	pkg    *types.Package
	files  []*ast.File
	quotes []string // functions that make any text harmless

	assigned map[types.Object][]value         // what a variable or field may hold
	calls    map[types.Object][]*ast.CallExpr // of a function, or of one in a variable
	bodies   map[types.Object]*ast.FuncDecl   // of the package's functions
	params   map[types.Object]parameter       // whose they are
	loose    map[types.Object]int             // how often a function is used without being called
	seen     map[any]bool
	sinks    int
	findings map[string]bool
}

// value is one of the values of an expression that may have several.
type value struct {
	expr  ast.Expr
	index int // of a call's results
}

// parameter is the place of a parameter.
type parameter struct {
	of       any // *ast.FuncDecl or *ast.FuncLit
	index    int
	variadic bool
}

// sources imports this module's packages from their folders, and of others
// nothing: what is from there has no type, and so does not pass for text of
// the program's own.
type sources struct {
	fset *token.FileSet
	done map[string]*types.Package
}

func (s *sources) Import(name string) (*types.Package, error) {
	if p := s.done[name]; p != nil {
		return p, nil
	}
	rel, own := strings.CutPrefix(name, module+"/")
	if !own {
		base := path.Base(name)
		if len(base) > 1 && base[0] == 'v' && base[1] >= '0' && base[1] <= '9' {
			base = path.Base(path.Dir(name))
		}
		s.done[name] = types.NewPackage(name, base)
		s.done[name].MarkComplete()
		return s.done[name], nil
	}
	files, err := parse(s.fset, filepath.Join("..", "..", filepath.FromSlash(rel)))
	if err != nil {
		return nil, err
	}
	check := types.Config{Importer: s, Error: func(error) {}}
	s.done[name], _ = check.Check(name, s.fset, files, nil)
	return s.done[name], nil
}

// parse reads the files of a package, without its tests.
func parse(fset *token.FileSet, dir string) (files []*ast.File, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, p, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// follow reads the package in a folder, with one more file, and returns the
// places where text from outside enters a statement, and how many statements
// are run.
func follow(dir, more string, quotes ...string) (findings []string, sinks int, err error) {
	o := &origin{
		fset: token.NewFileSet(), quotes: quotes,
		assigned: map[types.Object][]value{}, calls: map[types.Object][]*ast.CallExpr{},
		bodies: map[types.Object]*ast.FuncDecl{}, params: map[types.Object]parameter{}, loose: map[types.Object]int{},
		seen: map[any]bool{}, findings: map[string]bool{},
		info: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
			Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
		},
	}
	if o.files, err = parse(o.fset, dir); err != nil {
		return nil, 0, err
	}
	if more != "" {
		f, err := parser.ParseFile(o.fset, "more.go", more, parser.SkipObjectResolution)
		if err != nil {
			return nil, 0, err
		}
		o.files = append(o.files, f)
	}
	check := types.Config{Importer: &sources{o.fset, map[string]*types.Package{}}, Error: func(error) {}}
	o.pkg, _ = check.Check(dir, o.fset, o.files, o.info)
	for _, f := range o.files {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok {
				o.bodies[o.info.Defs[d.Name]] = d
			}
		}
	}
	for _, f := range o.files {
		o.collect(f)
	}
	for _, f := range o.files {
		ast.Inspect(f, o.sink)
	}
	for f := range o.findings {
		findings = append(findings, f)
	}
	slices.Sort(findings)
	return findings, o.sinks, nil
}

// outside notes that an expression's text is not the program's own.
func (o *origin) outside(e ast.Node, format string, args ...any) {
	place := filepath.Base(o.fset.Position(e.Pos()).Filename)
	for _, f := range o.files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Pos() <= e.Pos() && e.Pos() < fn.End() {
				place += " " + fn.Name.Name
			}
		}
	}
	o.findings[place+": "+fmt.Sprintf(format, args...)] = true
}

// statementAt is where the methods that run or prepare a statement have it.
var statementAt = map[string]int{
	"ExecContext": 1, "QueryContext": 1, "QueryRowContext": 1, "PrepareContext": 1,
	"Exec": 0, "Query": 0, "QueryRow": 0, "Prepare": 0, "NewRaw": 0, "NewQuery": 0, "native": 2,
}

func (o *origin) sink(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return true
	}
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
		at, ok := statementAt[sel.Sel.Name]
		if ok && at == 0 && len(call.Args) > 0 && contextual(call.Args[0]) {
			at = 1 // of a driver, or of a query that has its statement already
		}
		if ok && at < len(call.Args) && (!call.Ellipsis.IsValid() || at != len(call.Args)-1) {
			o.sinks++ // without those of a prepared statement, which take arguments only
			o.text(call.Args[at])
		}
	}
	return true
}

func contextual(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "ctx"
	case *ast.CallExpr:
		sel, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (sel.Sel.Name == "Context" || sel.Sel.Name == "WithoutCancel")
	}
	return false
}

// collect notes who gives what a value.
func (o *origin) collect(f *ast.File) {
	called := map[*ast.Ident]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			o.signature(n, n.Type)
		case *ast.FuncLit:
			o.signature(n, n.Type)
		case *ast.AssignStmt:
			for i, l := range n.Lhs {
				if len(n.Rhs) == len(n.Lhs) {
					o.assign(l, value{n.Rhs[i], 0})
				} else {
					o.assign(l, value{n.Rhs[0], i})
				}
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if len(n.Values) == len(n.Names) {
					o.assign(name, value{n.Values[i], 0})
				} else if len(n.Values) == 1 {
					o.assign(name, value{n.Values[0], i})
				}
			}
		case *ast.RangeStmt:
			if n.Key != nil {
				o.assign(n.Key, value{n.X, -1})
			}
			if n.Value != nil {
				o.assign(n.Value, value{n.X, -1})
			}
		case *ast.CompositeLit:
			o.fields(n)
		case *ast.CallExpr:
			o.call(n, called)
		case *ast.Ident:
			if fn, ok := o.info.Uses[n].(*types.Func); ok && !called[n] {
				o.loose[fn]++
			}
		}
		return true
	})
}

func (o *origin) signature(of any, t *ast.FuncType) {
	index := 0
	for _, field := range t.Params.List {
		_, variadic := field.Type.(*ast.Ellipsis)
		for _, name := range field.Names {
			if obj := o.info.Defs[name]; obj != nil {
				o.params[obj] = parameter{of, index, variadic}
			}
			index++
		}
		if len(field.Names) == 0 {
			index++
		}
	}
}

func (o *origin) call(n *ast.CallExpr, called map[*ast.Ident]bool) {
	fun := ast.Unparen(n.Fun)
	if star, ok := fun.(*ast.StarExpr); ok {
		fun = ast.Unparen(star.X)
	}
	var name *ast.Ident
	switch fun := fun.(type) {
	case *ast.Ident:
		name = fun
	case *ast.SelectorExpr:
		name = fun.Sel
		// A builder takes what is written to it.
		if strings.HasPrefix(name.Name, "Write") {
			for _, a := range n.Args {
				o.assign(fun.X, value{a, 0})
			}
		}
	default:
		return
	}
	called[name] = true
	obj := o.info.Uses[name]
	if obj != nil {
		o.calls[obj] = append(o.calls[obj], n)
	}
	for i, a := range n.Args {
		// Whoever gets the address may write there; so may Fprintf.
		if u, ok := ast.Unparen(a).(*ast.UnaryExpr); ok && u.Op == token.AND {
			if !strings.HasPrefix(name.Name, "Fprint") {
				o.assign(u.X, value{a, -2})
			} else {
				for _, rest := range n.Args[1:] {
					o.assign(u.X, value{rest, 0})
				}
			}
		}
		if decl := o.declared(obj); decl != nil {
			if p := o.parameterOf(decl, i); p != nil {
				o.assigned[p] = append(o.assigned[p], value{a, 0})
			}
		}
	}
}

func (o *origin) declared(obj types.Object) *ast.FuncDecl {
	fn, ok := obj.(*types.Func)
	if !ok || fn.Pkg() != o.pkg {
		return nil
	}
	return o.bodies[fn.Origin()]
}

// parameterOf returns a function's i-th parameter.
func (o *origin) parameterOf(d *ast.FuncDecl, i int) types.Object {
	index := 0
	for _, field := range d.Type.Params.List {
		_, variadic := field.Type.(*ast.Ellipsis)
		for _, name := range field.Names {
			if index == i || variadic && i > index {
				return o.info.Defs[name]
			}
			index++
		}
	}
	return nil
}

// assign notes a value of what stands on the left: a variable, a field, or an
// element of one.
func (o *origin) assign(l ast.Expr, v value) {
	switch l := ast.Unparen(l).(type) {
	case *ast.Ident:
		obj := o.info.Defs[l]
		if obj == nil {
			obj = o.info.Uses[l]
		}
		if obj != nil {
			o.assigned[obj] = append(o.assigned[obj], v)
		}
	case *ast.SelectorExpr:
		if s := o.info.Selections[l]; s != nil {
			o.assigned[s.Obj()] = append(o.assigned[s.Obj()], v)
		}
	case *ast.IndexExpr:
		o.assign(l.X, v)
	case *ast.StarExpr:
		o.assign(l.X, v)
	case *ast.UnaryExpr:
		o.assign(l.X, v)
	}
}

// fields notes what a literal gives to the fields of its struct.
func (o *origin) fields(n *ast.CompositeLit) {
	t := o.info.Types[n].Type
	if t == nil {
		return
	}
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i, e := range n.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && o.info.Uses[key] != nil {
				o.assigned[o.info.Uses[key]] = append(o.assigned[o.info.Uses[key]], value{kv.Value, 0})
			}
			continue
		}
		if i < s.NumFields() {
			o.assigned[s.Field(i)] = append(o.assigned[s.Field(i)], value{e, 0})
		}
	}
}
