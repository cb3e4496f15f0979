// Puts report.html together.
themeButton();
const launched = trialNumbered(data.recommended);
if (launched) {
  byId("launch-flags").append(serverFlags(launched));
  byId("launch-command")
      .append(make("p", {class: "note"}, "Measure it again:"), commandBlock(measureCommand(launched)));
}
startFront();
showPicked();
startTax();
startCache();
startKnobs();
startHistory();
startPredicted();
