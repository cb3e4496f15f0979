// Every preset, cut to a size that a test can run: the layout and routing of the published model, narrow and
// shallow.
#pragma once

#include <string>
#include <vector>

namespace moetune::testing {

inline std::vector<std::string> small_presets() {
  const std::string widths = "hidden=64,heads=4,vocabulary=97";
  return {"mixtral-8x7b:layers=2,inner=32,kv_heads=2," + widths,
          "qwen3-30b-a3b:layers=4,experts=8,top_k=2,inner=32,kv_heads=2,head_dim=16," + widths,
          "olmoe-1b-7b:layers=2,experts=8,top_k=2,inner=32," + widths,
          "deepseek-v2-lite:layers=3,experts=8,top_k=2,inner=32,dense_inner=48," + widths,
          "deepseek-v3:layers=3,dense_layers=1,experts=8,groups=2,kept_groups=1,top_k=2,inner=32,dense_inner="
          "48," +
              widths,
          "hypothetical-v4:layers=2,dense_layers=1,experts=8,groups=2,kept_groups=1,top_k=2,inner=32,dense_"
          "inner=48," +
              widths,
          "deepseek-v4-flash:layers=2,experts=8,top_k=2,inner=32," + widths,
          "deepseek-v4-pro:layers=2,experts=8,top_k=2,inner=32," + widths,
          "gpt-oss-20b:layers=2,experts=8,top_k=2,inner=32,kv_heads=2,head_dim=16," + widths,
          "gpt-oss-120b:layers=2,experts=8,top_k=2,inner=32,kv_heads=2,head_dim=16," + widths,
          "llama-3-8b:layers=2,inner=96,kv_heads=2," + widths};
}

}  // namespace moetune::testing
