#include "kernels/prompt_path.h"

namespace moetune {
namespace {
PromptPath chosen;
}  // namespace

PromptPath prompt_path() { return chosen; }
void set_prompt_path(const PromptPath& path) { chosen = path; }

}  // namespace moetune
