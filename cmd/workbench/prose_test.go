package main

import (
	"regexp"
	"strings"
	"testing"
)

const mostWords = 40 // of a sentence

var (
	// notProse are comments, blocks of code, and tables that a program prints.
	notProse = regexp.MustCompile("(?s)<!-- (?:table|measured) .*?<!-- end -->|<!--.*?-->|```.*?\n```")
	codeSpan = regexp.MustCompile("`[^`]*`")
	linkTo   = regexp.MustCompile(`\]\([^)]*\)`)
	listItem = regexp.MustCompile(`^ *(?:[-*]|\d+\.) `)
	// sentenceEnd is followed by what may begin the next sentence.
	sentenceEnd = regexp.MustCompile(`[.!?][*)"]* +([^a-z ])`)
	hasLetter   = regexp.MustCompile(`[\pL\d]`)

	// retiredWords of the documents, and what to write.
	retiredWords = map[string]string{
		"beside": "with, concurrently with, in addition to", "dear": "expensive", "so many": "n, that many", "so much": "n, that much",
		"whole number": "integer", "whole numbers": "integers", "that flush": "synchronous", "told": "reported, named", "tell": "report",
		"tells": "reports, distinguishes", "nobody": "none, unchecked", "somebody": "a person", "travels": "is transferred", "travel": "are transferred",
	}
)

// paragraphs returns the prose of a document: paragraphs, items of lists and cells of tables, a line each, without code and the
// targets of links.
func paragraphs(text string) (all []string) {
	text = linkTo.ReplaceAllString(codeSpan.ReplaceAllString(notProse.ReplaceAllString(text, "\n\n"), "X"), "]")
	for block := range strings.SplitSeq(text, "\n\n") {
		open := false // a line may continue the last paragraph
		for line := range strings.Lines(block) {
			switch line = strings.TrimRight(line, "\n"); {
			case strings.HasPrefix(strings.TrimSpace(line), "|"):
				all, open = append(all, strings.Split(line, "|")...), false
			case strings.HasPrefix(line, "#") || strings.HasPrefix(line, "    ") && !open:
				open = false
			case !open || listItem.MatchString(line):
				all, open = append(all, strings.TrimSpace(listItem.ReplaceAllString(line, ""))), true
			default:
				all[len(all)-1] += " " + strings.TrimSpace(line)
			}
		}
	}
	return all
}

func isPunctuation(r rune) bool { return strings.ContainsRune(" .,;:!?()*[]\"", r) }

// words counts what has a letter or a digit.
func words(sentence string) (n int) {
	for word := range strings.FieldsSeq(sentence) {
		if hasLetter.MatchString(word) {
			n++
		}
	}
	return n
}

// Documents are in short sentences of standard words.
func TestProseOfDocuments(t *testing.T) {
	seen := 0
	for file, text := range files(t, "*.md", "docs/*.md", "docs/formulations/*.md", "pytorch/*.md") {
		for _, p := range paragraphs(text) {
			seen++
			for sentence := range strings.SplitSeq(sentenceEnd.ReplaceAllString(p, ".\x00$1"), "\x00") {
				if n := words(sentence); n > mostWords {
					t.Errorf("%s: a sentence of %d words, at most %d are read with pleasure: %s", file, n, mostWords, sentence)
				}
			}
			plain := " " + strings.Join(strings.FieldsFunc(strings.ToLower(p), isPunctuation), " ") + " "
			for word, instead := range retiredWords {
				if strings.Contains(plain, " "+word+" ") {
					t.Errorf("%s: %q is retired, write %s: %s", file, word, instead, p)
				}
			}
		}
	}
	if seen < 1000 {
		t.Errorf("only %d paragraphs seen", seen)
	}
}

// The rules of prose find what they are for, and nothing in code.
func TestProseRules(t *testing.T) {
	got := paragraphs("# Title beside\n\nOne, `two beside`\nthree.\n- item [a](b.md)\n\n| cell | 2 |\n\n```\ntold\n```\n")
	if want := []string{"One, X three.", "item [a]", "", " cell ", " 2 ", "", ""}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("paragraphs %q, want %q", got, want)
	}
	if n := words("A plan — of 3 layers, [as] X"); n != 7 {
		t.Errorf("%d words, want 7", n)
	}
}

// The first version of the changelog is that of the Python package and of the citation.
func TestVersionsAgree(t *testing.T) {
	var versions []string
	for file, version := range map[string]string{
		"CHANGELOG.md": `(?m)^## (\d+\.\d+\.\d+) `, "CITATION.cff": `(?m)^version: (.*)$`, "pytorch/workbench_torch/_binary.py": `__version__ = "(.*)"`,
	} {
		for _, text := range files(t, file) {
			if m := regexp.MustCompile(version).FindStringSubmatch(text); m != nil {
				versions = append(versions, m[1])
			}
		}
	}
	if len(versions) != 3 || versions[0] != versions[1] || versions[1] != versions[2] {
		t.Errorf("versions %q of CHANGELOG.md, CITATION.cff and _binary.py", versions)
	}
}
