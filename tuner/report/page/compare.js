// The chart of compare.html.
themeButton();
