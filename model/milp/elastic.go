package milp

// Slack is a column of an elastic model: the violation of a side of a row.
type Slack struct {
	Row Limit // of the model and of its elastic copy alike
	Var Var
}

// Elastic returns a copy of m in which rows may be violated at a cost, with their slacks in order of rows: row i
// of positive finite weight(i) becomes
//
//	rowLower_i ≤ Σ_j a_ij x_j + s_i − t_i ≤ rowUpper_i,  s_i, t_i ≥ 0
//
// with s_i only if the lower side is finite and t_i only if the upper one is. The objective becomes min Σ
// weight(i)·(s_i + t_i). Other rows, the bounds of columns and integrality stay hard. Columns, rows and groups of
// m keep their numbers and names, and its variables are valid in the copy. An optimum of 0 means that m is
// feasible; otherwise the positive slacks are the rows to relax, and by how much.
func (m *Model) Elastic(weight func(row int) float64) (*Model, []Slack) {
	m = m.Plain()
	var slacks []Slack
	var weights []float64
	for i := range m.rowLower {
		w := weight(i)
		if !(w > 0) || !finite(w) {
			continue
		}
		if !isInf(m.rowLower[i]) {
			slacks, weights = append(slacks, Slack{Row: Limit{i, Below}}), append(weights, w)
		}
		if !isInf(m.rowUpper[i]) {
			slacks, weights = append(slacks, Slack{Row: Limit{i, Above}}), append(weights, w)
		}
	}

	c := m.cloneCols(len(m.rowLower), len(m.col)+len(slacks))
	label := func(k int) string {
		return m.rowName(slacks[k].Row.Index) + " " + slacks[k].Row.Side.String()
	}
	first, tag := c.addCols(family{name: "slack", n: len(slacks), label: label}, Continuous, 0, inf)
	var price Expr
	for k := range slacks {
		slacks[k].Var = Var{first + uint32(k), tag}
		price.Add(weights[k], slacks[k].Var)
	}
	c.Minimize(&price)

	k := 0
	for i := range m.rowLower {
		c.copyRow(m, i)
		for ; tag != 0 && k < len(slacks) && slacks[k].Row.Index == i; k++ {
			sign := 1.
			if slacks[k].Row.Side == Above {
				sign = -1
			}
			c.col, c.val = append(c.col, int32(slacks[k].Var.id)), append(c.val, sign)
			c.start[i+1]++
		}
	}
	return c, slacks
}
