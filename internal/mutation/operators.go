package main

import (
	"go/ast"
	"go/token"
	"strings"
)

// swaps has, for each operator, those that replace it.
var swaps = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.ADD: {token.SUB}, token.SUB: {token.ADD},
	token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.AND: {token.OR}, token.OR: {token.AND}, token.AND_NOT: {token.AND},
	token.SHL: {token.SHR}, token.SHR: {token.SHL},
	token.INC: {token.DEC}, token.DEC: {token.INC},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.MUL_ASSIGN: {token.QUO_ASSIGN}, token.QUO_ASSIGN: {token.MUL_ASSIGN},
}

// others has, for a word or number, the one that replaces it.
var others = map[string]string{"0": "1", "1": "0", "true": "false", "false": "true", "min": "max", "max": "min"}

// changes calls found with each change of a declaration: the bytes from one position to another
// become the text. source returns the bytes of a node as they are.
func changes(d ast.Decl, source func(ast.Node) string, found func(from, to token.Pos, text string)) {
	c := &changer{source: source, found: found, alone: map[ast.Node]bool{}}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.ArrayType:
			return false // a length is no arithmetic
		case ast.Expr:
			c.changeExpr(n)
		default:
			c.changeStmt(n)
		}
		return true
	})
}

// changer finds the changes of one declaration.
type changer struct {
	source func(ast.Node) string
	found  func(from, to token.Pos, text string)

	// alone has the statements that are not removed. One that stands alone under a condition is one
	// of them, because the condition is made false instead. So is the return at the end of a
	// function, without which the code does not build.
	alone map[ast.Node]bool
}

// changeExpr changes an expression, but none of those inside it.
func (c *changer) changeExpr(n ast.Node) {
	switch n := n.(type) {
	case *ast.FuncLit:
		c.keepReturn(n.Body)
	case *ast.BinaryExpr:
		c.swap(n.OpPos, n.Op)
	case *ast.UnaryExpr:
		if n.Op == token.NOT || n.Op == token.SUB {
			c.found(n.OpPos, n.X.Pos(), "")
		}
	case *ast.BasicLit:
		c.replace(n, n.Value)
	case *ast.Ident:
		c.replace(n, n.Name)
	}
}

// changeStmt changes a statement, but none of those inside it. It notes which statements inside it,
// or at the end of a function, must stay.
func (c *changer) changeStmt(n ast.Node) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		c.keepReturn(n.Body)
	case *ast.IncDecStmt:
		c.swap(n.TokPos, n.Tok)
		c.remove(n)
	case *ast.AssignStmt:
		c.swap(n.TokPos, n.Tok)
		switch {
		case n.Tok == token.DEFINE || c.alone[n]:
		case n.Tok == token.ASSIGN: // the right side still runs
			c.found(n.Pos(), n.Rhs[0].Pos(), strings.Repeat("_, ", len(n.Lhs)-1)+"_ = ")
		default:
			c.remove(n)
		}
	case *ast.ExprStmt, *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt, *ast.BranchStmt, *ast.ReturnStmt:
		c.remove(n)
	case *ast.IfStmt:
		c.decide(n.Cond)
		if len(n.Body.List) == 1 && n.Else == nil {
			c.alone[n.Body.List[0]] = true
		}
	case *ast.ForStmt:
		if n.Cond != nil {
			c.found(n.Cond.Pos(), n.Cond.End(), "false && ("+c.source(n.Cond)+")")
		}
	case *ast.SwitchStmt:
		if n.Tag == nil {
			c.decideCases(n.Body)
		}
	}
}

// swap replaces an operator by others.
func (c *changer) swap(at token.Pos, op token.Token) {
	for _, other := range swaps[op] {
		c.found(at, at+token.Pos(len(op.String())), other.String())
	}
}

// replace replaces a word or number by another one.
func (c *changer) replace(n ast.Node, name string) {
	if other, ok := others[name]; ok {
		c.found(n.Pos(), n.End(), other)
	}
}

// decide makes a condition true, and false. It keeps the names in it: the compiler refuses unused
// ones.
func (c *changer) decide(cond ast.Expr) {
	c.found(cond.Pos(), cond.End(), "true || "+c.source(cond))
	c.found(cond.Pos(), cond.End(), "false && ("+c.source(cond)+")")
}

// decideCases decides the conditions of a switch.
func (c *changer) decideCases(body *ast.BlockStmt) {
	for _, clause := range body.List {
		for _, cond := range clause.(*ast.CaseClause).List {
			c.decide(cond)
		}
	}
}

// remove removes a statement, unless it is to stay.
func (c *changer) remove(n ast.Node) {
	if !c.alone[n] {
		c.found(n.Pos(), n.End(), "")
	}
}

// keepReturn keeps the return at the end of a function.
func (c *changer) keepReturn(b *ast.BlockStmt) {
	if b != nil && len(b.List) > 0 {
		if r, ok := b.List[len(b.List)-1].(*ast.ReturnStmt); ok {
			c.alone[r] = true
		}
	}
}
