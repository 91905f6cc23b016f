// The commands that run a model.
#include "tree.hpp"

namespace imex::cli {
namespace {

/// The parser would take -1 for the largest number.
std::string not_negative(const std::string& text) {
  return text.starts_with('-') ? "a number from 0 on is wanted, " + text + " was found" : "";
}

}  // namespace

void CommandTree::add_run_options(CLI::App* command, ModelRunOptions& options) {
  command
      ->add_option("--model", options.model,
                   "a name of 'imex model list', a .gguf or .tensors file, a llama2.c .bin, or a "
                   "folder in Hugging Face layout; default: $IMEX_MODEL_PATH, $NIM_MODEL_PATH, "
                   "smollm2-135m")
      ->type_name("NAME|PATH");
  command
      ->add_option("--tensor-parallel,-T", options.tensor_parallel,
                   "ranks that the model is split over, a process each; default: "
                   "$IMEX_TENSOR_PARALLEL_SIZE, $NIM_TENSOR_PARALLEL_SIZE, 1")
      ->type_name("N");
  command
      ->add_option("--max-model-len,--context", options.max_model_len,
                   "most tokens of prompt and text together; default: $IMEX_MAX_MODEL_LEN, "
                   "$NIM_MAX_MODEL_LEN, the model's")
      ->type_name("N");
  command
      ->add_option("--log-level", options.log_level,
                   "what of the start is told on standard error: trace, debug, info, warning, "
                   "error, critical; default: $IMEX_LOG_LEVEL, $NIM_LOG_LEVEL, warning")
      ->type_name("LEVEL");
  command->add_flag("--invariant", options.invariant,
                    "the same bits for every number of ranks, at some cost");
  command
      ->add_option("--channel", options.channels,
                   "channels of node daemons that the ranks meet through, in turn; default: "
                   "directly")
      ->delimiter(',')
      ->type_name("PATH,...");
}

void CommandTree::add_sampling_options(CLI::App* command, GenerateOptions& options) {
  inference::SamplingOptions& sampling = options.sampling;
  sampling.temperature = 0.8F;
  sampling.top_k = 40;
  sampling.top_p = 0.95F;
  command->add_option("--temperature", sampling.temperature, "0: always the likeliest token")
      ->capture_default_str();
  command->add_option("--top-k", sampling.top_k, "only the k likeliest tokens; 0: all")
      ->capture_default_str();
  command->add_option("--top-p", sampling.top_p, "only the likeliest that share this probability")
      ->capture_default_str();
  command
      ->add_option("--min-p", sampling.min_p,
                   "only tokens at least so likely as this share of the likeliest")
      ->capture_default_str();
  command->add_option("--seed", options.seed, "of the random numbers; default: another each time")
      ->check(CLI::Validator(not_negative, "", "not negative"));
  command
      ->add_option("--presence-penalty", sampling.presence_penalty,
                   "taken from tokens that the text has")
      ->capture_default_str();
  command
      ->add_option("--frequency-penalty", sampling.frequency_penalty,
                   "taken from a token for each time that the text has it")
      ->capture_default_str();
  command
      ->add_option("--repetition-penalty", sampling.repetition_penalty,
                   "weakens tokens of prompt and text; 1: not")
      ->capture_default_str();
  command->add_option("--min-tokens", sampling.min_tokens, "the text does not end before");
  command->add_option("--max-tokens,-n", options.max_tokens, "the text ends after so many")
      ->check(CLI::Range(1U, UINT32_MAX))
      ->capture_default_str();
  command->add_option("--stop", options.stop, "text that ends the answer; may be given again")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command->add_flag("--profile", options.profile, "where the time of a step went, for each rank");
}

void CommandTree::add_generate() {
  CLI::App* command =
      leaf(&app_, "generate", "text that follows a prompt, by a model split over ranks",
           "Examples:\n  imex generate -T 2 -- \"Once upon a time\"\n"
           "  imex generate --model model.gguf --chat \"What is shared memory?\"\n"
           "  imex generate --temperature 0 --format json -- \"One, two\" | jq .ids",
           [this] { return generate(global_, generate_); });
  auto* const prompt = command->add_option("prompt", generate_.prompt, "what the text begins with");
  command
      ->add_option("--prompt-file", generate_.prompt_file, "read it from a file; -: standard input")
      ->type_name("FILE")
      ->excludes(prompt);
  command->add_flag("--chat", generate_.chat, "the prompt is a user's message to the model");
  add_run_options(command, generate_.run);
  add_sampling_options(command, generate_);
}

void CommandTree::add_chat() {
  CLI::App* command =
      leaf(&app_, "chat", "a conversation with a model split over ranks",
           "Examples:\n  imex chat -T 2\n"
           "  imex chat --model model.gguf --system \"Answer in one sentence.\"\n"
           "  printf 'Hello\\nWho are you?\\n' | imex chat --format jsonl | jq -r .text",
           [this] { return chat(global_, chat_); });
  command->add_option("--system", chat_.system, "what the model is told before the conversation")
      ->type_name("TEXT");
  chat_.generate.max_tokens = 512;
  add_run_options(command, chat_.generate.run);
  add_sampling_options(command, chat_.generate);
}

void CommandTree::add_perplexity() {
  CLI::App* command =
      leaf(&app_, "perplexity", "how well a model foretells a text",
           "Examples:\n  imex perplexity --file story.txt\n"
           "  imex perplexity --model model.gguf -T 2 --file story.txt --format json",
           [this] { return perplexity(global_, perplexity_); });
  command->add_option("--file", perplexity_.file, "UTF-8 text")->required()->type_name("FILE");
  add_run_options(command, perplexity_.run);
}

}  // namespace imex::cli
