package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// stringFlag declares a flag of text under a category of the help. names are its name and its short one, separated by ", "; shown is
// what the help shows as default in place of value.
func stringFlag(category, names string, to *string, value, usage string, shown ...string) *cli.StringFlag {
	name, short := flagNamesOf(names)
	return &cli.StringFlag{
		Name: name, Aliases: short, Usage: usage, Value: value, DefaultText: strings.Join(shown, ""), Destination: to, Category: category,
	}
}

// intFlag declares a flag of an integer, as [stringFlag].
func intFlag(category, names string, to *int, value int, usage string, shown ...string) *cli.IntFlag {
	name, short := flagNamesOf(names)
	return &cli.IntFlag{
		Name: name, Aliases: short, Usage: usage, Value: value, DefaultText: strings.Join(shown, ""), Destination: to, Category: category,
	}
}

// floatFlag declares a flag of a number, as [stringFlag].
func floatFlag(category, name string, to *float64, value float64, usage string) *cli.Float64Flag {
	return &cli.Float64Flag{Name: name, Usage: usage, Value: value, Destination: to, Category: category}
}

// boolFlag declares a flag without a value, as [stringFlag].
func boolFlag(category, names string, to *bool, usage string) *cli.BoolFlag {
	name, short := flagNamesOf(names)
	return &cli.BoolFlag{Name: name, Aliases: short, Usage: usage, Destination: to, Category: category}
}

func flagNamesOf(names string) (name string, short []string) {
	list := strings.Split(names, ", ")
	return list[0], list[1:]
}

// given returns the last of some flags that the user gave, with its dashes; "" for none.
func given(c *cli.Context, names ...string) (flag string) {
	for _, name := range names {
		if c.IsSet(name) {
			flag = "--" + name
		}
	}
	return flag
}
