#include "inference/settings/run_settings.hpp"

#include <gmock/gmock.h>

#include "inference/testing/data.hpp"

namespace imex::inference {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

RunSettings settings_of(NamedValues environment, NamedValues options = {}) {
  const auto settings = read_run_settings({std::move(options), std::move(environment)});
  EXPECT_TRUE(settings) << settings.error().to_string();
  return settings.value_or(RunSettings{});
}

Error refusal_of(NamedValues environment, NamedValues options = {}) {
  const auto settings = read_run_settings({std::move(options), std::move(environment)});
  EXPECT_FALSE(settings);
  return settings ? Error{} : settings.error();
}

TEST(RunSettingsTest, NothingSaidMeansTheDefaults) {
  const RunSettings settings = settings_of({{"PATH", "/bin"}, {"NIM_MODEL_PATH", ""}});
  EXPECT_EQ(settings.model.value, "smollm2-135m");
  EXPECT_EQ(settings.tensor_parallel.value, 1U);
  EXPECT_EQ(settings.max_model_len.value, 0U);
  EXPECT_EQ(settings.log_level.value, RunLogLevel::kInfo);
  EXPECT_FALSE(settings.json_logs.value);
  EXPECT_FALSE(settings.download_disabled.value);
  EXPECT_THAT(settings.warnings, IsEmpty());
  for (const SettingRow& row : setting_rows(settings)) EXPECT_EQ(row.source, "default") << row.key;
}

TEST(RunSettingsTest, AnOptionWinsOverOursOursOverNimsNimsOverTheDefault) {
  NamedValues environment{{"NIM_TENSOR_PARALLEL_SIZE", "8"}};
  RunSettings settings = settings_of(environment);
  EXPECT_EQ(settings.tensor_parallel.value, 8U);
  EXPECT_EQ(settings.tensor_parallel.source, SettingSource::kNim);
  environment.emplace_back("IMEX_TENSOR_PARALLEL_SIZE", "4");
  settings = settings_of(environment);
  EXPECT_EQ(settings.tensor_parallel.value, 4U);
  EXPECT_EQ(settings.tensor_parallel.name, "IMEX_TENSOR_PARALLEL_SIZE");
  settings = settings_of(environment, {{"--tensor-parallel", "2"}});
  EXPECT_EQ(settings.tensor_parallel.value, 2U);
  EXPECT_EQ(setting_rows(settings)[2].source, "option --tensor-parallel");
  EXPECT_EQ(setting_rows(settings_of(environment))[2].source, "variable IMEX_TENSOR_PARALLEL_SIZE");
}

TEST(RunSettingsTest, OnlyTheValueThatWinsIsChecked) {
  EXPECT_EQ(settings_of({{"NIM_TENSOR_PARALLEL_SIZE", "many"}}, {{"--tensor-parallel", "2"}})
                .tensor_parallel.value,
            2U);
  EXPECT_EQ(settings_of({{"NIM_PIPELINE_PARALLEL_SIZE", "2"}, {"IMEX_PIPELINE_PARALLEL_SIZE", "1"}})
                .tensor_parallel.value,
            1U);
}

TEST(RunSettingsTest, EachVariableIsRead) {
  const RunSettings settings = settings_of({{"NIM_MODEL_PATH", "/models/a.gguf"},
                                            {"NIM_MAX_MODEL_LEN", "4096"},
                                            {"NIM_CACHE_PATH", "/opt/nim/.cache"},
                                            {"NIM_LOG_LEVEL", "WARNING"},
                                            {"NIM_JSONL_LOGGING", "1"},
                                            {"NIM_DISABLE_MODEL_DOWNLOAD", "True"}});
  EXPECT_EQ(settings.model.value, "/models/a.gguf");
  EXPECT_EQ(settings.max_model_len.value, 4096U);
  EXPECT_EQ(settings.cache_folder.value, "/opt/nim/.cache");
  EXPECT_EQ(settings.log_level.value, RunLogLevel::kWarning);
  EXPECT_TRUE(settings.json_logs.value);
  EXPECT_TRUE(settings.download_disabled.value);
  EXPECT_EQ(settings_of({{"NIM_CACHE_PATH", "/a"}, {"IMEX_CACHE_DIR", "/b"}}).cache_folder.value,
            "/b");
  EXPECT_EQ(settings_of({{"NIM_LOG_LEVEL", "DEFAULT"}}).log_level.value, RunLogLevel::kInfo);
}

TEST(RunSettingsTest, AProfileGivesTheSizeUnlessASizeIsGiven) {
  const std::string old_name = "tensorrt_llm-h100-fp8-tp8-pp1-throughput";
  const RunSettings settings = settings_of({{"NIM_MODEL_PROFILE", old_name}});
  EXPECT_EQ(settings.profile.value, old_name);
  EXPECT_EQ(settings.tensor_parallel.value, 8U);
  EXPECT_EQ(settings.tensor_parallel.name, "NIM_MODEL_PROFILE");
  EXPECT_EQ(settings_of({{"IMEX_MODEL_PROFILE", "tp4"}, {"NIM_TENSOR_PARALLEL_SIZE", "2"}})
                .tensor_parallel.value,
            2U);
  EXPECT_EQ(settings_of({{"NIM_MODEL_PROFILE", "throughput"}}).tensor_parallel.value, 1U);
  EXPECT_THAT(refusal_of({{"NIM_MODEL_PROFILE", "vllm-tp2-pp2"}}).message,
              HasSubstr("one pipeline stage"));
  EXPECT_THAT(refusal_of({{"NIM_MODEL_PROFILE", "tp0"}}).message, HasSubstr("tp1 to tp1024"));
  const Error id = refusal_of({{"NIM_MODEL_PROFILE", std::string(64, 'a')}});
  EXPECT_EQ(id.code, Errc::kUnsupported);
  EXPECT_THAT(id.message, HasSubstr("by name"));
}

TEST(RunSettingsTest, WhatCannotBeSplitYetIsRefused) {
  const Error stages = refusal_of({{"NIM_PIPELINE_PARALLEL_SIZE", "2"}});
  EXPECT_EQ(stages.code, Errc::kUnsupported);
  EXPECT_THAT(stages.message, AllOf(HasSubstr("NIM_PIPELINE_PARALLEL_SIZE: 1 wanted, 2 found"),
                                    HasSubstr("pipeline stages")));
  EXPECT_THAT(refusal_of({{"NIM_NUM_COMPUTE_NODES", "3"}}).message, HasSubstr("compute nodes"));
  settings_of({{"NIM_PIPELINE_PARALLEL_SIZE", "1"}, {"NIM_NUM_COMPUTE_NODES", "1"}});
}

TEST(RunSettingsTest, AllThatIsWrongIsSaidAtOnceWithWhatWasWanted) {
  const Error error = refusal_of(
      {{"NIM_MAX_MODEL_LEN", "4k"}, {"IMEX_LOG_LEVEL", "LOUD"}, {"NIM_JSONL_LOGGING", "maybe"}},
      {{"--tensor-parallel", "0"}});
  EXPECT_EQ(error.code, Errc::kInvalidArgument);
  EXPECT_THAT(
      error.message,
      AllOf(HasSubstr("--tensor-parallel: a number from 1 to 1024 wanted, '0' found"),
            HasSubstr("NIM_MAX_MODEL_LEN"), HasSubstr("'4k' found"),
            HasSubstr("IMEX_LOG_LEVEL: TRACE, DEBUG, INFO"), HasSubstr("NIM_JSONL_LOGGING")));
  for (const char* const wrong : {"-1", "+2", " 2", "2 ", "4294967297", "1025", "0x2"}) {
    refusal_of({{"NIM_TENSOR_PARALLEL_SIZE", wrong}});
  }
}

TEST(RunSettingsTest, AnAddressIsRefusedWithoutShowingIt) {
  const Error error = refusal_of({{"NIM_MODEL_PATH", "https://me:secret@host/model"}});
  EXPECT_EQ(error.code, Errc::kUnsupported);
  EXPECT_THAT(error.message, AllOf(HasSubstr("https://"), Not(HasSubstr("secret"))));
}

TEST(RunSettingsTest, AnUnknownVariableIsNamedWithItsNearest) {
  const RunSettings settings = settings_of({{"NIM_TENSOR_PARALEL_SIZE", "hidden value"},
                                            {"IMEX_CACHE_DRI", "/x"},
                                            {"NIMBLE", "1"},
                                            {"HF_TOKEN", "hf_secret1"}});
  EXPECT_THAT(settings.warnings,
              ElementsAre("unknown variable IMEX_CACHE_DRI is ignored; the nearest known one is "
                          "IMEX_CACHE_DIR",
                          "unknown variable NIM_TENSOR_PARALEL_SIZE is ignored; the nearest known "
                          "one is NIM_TENSOR_PARALLEL_SIZE"));
}

TEST(RunSettingsTest, VariablesOfOtherPartsAreKnown) {
  NamedValues environment{{"IMEX_CHECK", "1"},
                          {"IMEX_RECORD_DIR", "/tmp"},
                          {"IMEX_STATE_DIR", "/tmp"},
                          {"IMEX_CHANNEL", "0"},
                          {"IMEX_SHARED", "/x"},
                          {"NIM_SERVER_PORT", "8000"},
                          {"NIM_SSL_MODE", "TLS"},
                          {"NIM_LLM_SERVICE_HOST", "10.0.0.1"},
                          {"NIM_LLM_SERVICE_PORT_HTTP", "8000"},
                          {"NIM_LLM_PORT", "tcp://10.0.0.1:8000"},
                          {"NIM_LLM_PORT_8000_TCP_ADDR", "10.0.0.1"}};
  // Every key of the daemon's configuration.
  const std::string page =
      testing::read_text(testing::test_data("../../../docs/reference/configuration.md"));
  for (std::size_t at = page.find("`IMEX_"); at != std::string::npos;
       at = page.find("`IMEX_", at + 1)) {
    environment.emplace_back(page.substr(at + 1, page.find('`', at + 1) - at - 1), "x");
  }
  EXPECT_GT(environment.size(), 30U);
  EXPECT_THAT(settings_of(environment).warnings, IsEmpty());
}

TEST(RunSettingsTest, SecretsAreShownNowhere) {
  const std::string secret = "hf_abcdefgh";
  for (const char* const name : {"HF_TOKEN", "NGC_API_KEY", "AWS_SECRET_ACCESS_KEY"}) {
    const Error error = refusal_of({{name, secret}, {"NIM_LOG_LEVEL", "x" + secret}});
    EXPECT_THAT(error.to_string(), AllOf(Not(HasSubstr(secret)), HasSubstr("*** found")));
  }
}

}  // namespace
}  // namespace imex::inference
