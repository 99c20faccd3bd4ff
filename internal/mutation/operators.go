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
	operator := func(at token.Pos, op token.Token) {
		for _, other := range swaps[op] {
			found(at, at+token.Pos(len(op.String())), other.String())
		}
	}
	word := func(n ast.Node, name string) {
		if other, ok := others[name]; ok {
			found(n.Pos(), n.End(), other)
		}
	}
	// decide keeps the names in the condition: the compiler refuses what is unused.
	decide := func(cond ast.Expr) {
		found(cond.Pos(), cond.End(), "true || "+source(cond))
		found(cond.Pos(), cond.End(), "false && ("+source(cond)+")")
	}
	// What stands alone under a condition is not removed: the condition is made false. The return at
	// the end of a function is not, either: without it the function does not build.
	alone := map[ast.Node]bool{}
	last := func(b *ast.BlockStmt) {
		if b != nil && len(b.List) > 0 {
			if r, ok := b.List[len(b.List)-1].(*ast.ReturnStmt); ok {
				alone[r] = true
			}
		}
	}
	remove := func(n ast.Node) {
		if !alone[n] {
			found(n.Pos(), n.End(), "")
		}
	}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			last(n.Body)
		case *ast.FuncLit:
			last(n.Body)
		case *ast.BinaryExpr:
			operator(n.OpPos, n.Op)
		case *ast.UnaryExpr:
			if n.Op == token.NOT || n.Op == token.SUB {
				found(n.OpPos, n.X.Pos(), "")
			}
		case *ast.BasicLit:
			word(n, n.Value)
		case *ast.Ident:
			word(n, n.Name)
		case *ast.IncDecStmt:
			operator(n.TokPos, n.Tok)
			remove(n)
		case *ast.AssignStmt:
			operator(n.TokPos, n.Tok)
			switch {
			case n.Tok == token.DEFINE || alone[n]:
			case n.Tok == token.ASSIGN: // what is on the right is done all the same
				found(n.Pos(), n.Rhs[0].Pos(), strings.Repeat("_, ", len(n.Lhs)-1)+"_ = ")
			default:
				remove(n)
			}
		case *ast.ExprStmt, *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt, *ast.BranchStmt, *ast.ReturnStmt:
			remove(n)
		case *ast.IfStmt:
			decide(n.Cond)
			if len(n.Body.List) == 1 && n.Else == nil {
				alone[n.Body.List[0]] = true
			}
		case *ast.ForStmt:
			if n.Cond != nil {
				found(n.Cond.Pos(), n.Cond.End(), "false && ("+source(n.Cond)+")")
			}
		case *ast.SwitchStmt:
			for _, c := range n.Body.List {
				for _, cond := range c.(*ast.CaseClause).List {
					if n.Tag == nil {
						decide(cond)
					}
				}
			}
		case *ast.ArrayType:
			return false // a length is no arithmetic
		}
		return true
	})
}
