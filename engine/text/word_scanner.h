#pragma once
// The patterns that most byte-level tokenizers cut text with, as code: the words that the regular expression finds, at
// many times its speed. Each expression covers every text, so that its matches are the pieces.

#include <cstddef>
#include <string_view>

namespace paceline {

/// End of the word that begins at `pos`. REQUIRES well-formed UTF-8, pos < text.size() on a character's boundary.
/// Linear in the text over all words: a word looks at no more than itself, the white space after it and one character.
using WordScanner = size_t (*)(std::string_view text, size_t pos);

struct WordPattern {
  std::string_view regex;  // as tokenizer files spell it
  WordScanner scan;
};

/// GPT-2's (Radford et al. 2019, encoder.py): contractions, letters, digits or others with a blank before, white space
/// that leaves its last character to the next word.
extern const WordPattern kGpt2Words;
/// cl100k's (OpenAI's tiktoken) with up to three digits a word, as Llama 3 has it, and with one, as Qwen2.
extern const WordPattern kLlama3Words, kQwen2Words;
/// o200k's (OpenAI's tiktoken): words change at a capital letter; and Mistral's tekken: without contractions, one
/// digit.
extern const WordPattern kGpt4oWords, kTekkenWords;

/// The scanner of an expression that one of the above spells, else nullptr.
WordScanner find_word_scanner(std::string_view regex);

}  // namespace paceline
