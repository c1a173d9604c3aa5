// Draw the page that the data are of.
"use strict";

document.getElementById("title").textContent = Report.data.title;
Report.pages[Report.data.kind](Report.data);
Report.startTheme();
document.documentElement.dataset.ready = "yes";
