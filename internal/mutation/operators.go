package main

import (
	"go/ast"
	"go/token"
	"strings"
)

// swaps has the operators that take an operator's place.
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

// others has the words and numbers that take another's place.
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

	// alone has the statements that are not removed. What stands alone under a condition is one: the
	// condition is made false. So is the return at the end of a function, which does not build without.
	alone map[ast.Node]bool
}

// changeExpr changes an expression, but for those in it.
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

// changeStmt changes a statement, but for those in it. It notes which statements of it, or of a function, are
// to stay.
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
		case n.Tok == token.ASSIGN: // what is on the right is done all the same
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

// swap puts other operators in the place of one.
func (c *changer) swap(at token.Pos, op token.Token) {
	for _, other := range swaps[op] {
		c.found(at, at+token.Pos(len(op.String())), other.String())
	}
}

// replace puts another word or number in the place of one.
func (c *changer) replace(n ast.Node, name string) {
	if other, ok := others[name]; ok {
		c.found(n.Pos(), n.End(), other)
	}
}

// decide makes a condition true, and false. It keeps the names in it: the compiler refuses what is unused.
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
