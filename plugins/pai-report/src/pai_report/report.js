(() => {
  const form = document.querySelector("#search");
  const field = form.querySelector("input");
  const told = form.querySelector("output");
  const tasks = [...document.querySelectorAll(".task")].map((task) => ({
    task,
    name: task.id.toLowerCase(),
    logs: [...task.querySelectorAll(".searched")].map((log) => ({ log, text: log.textContent })),
  }));
  let timer;

  function search() {
    const wanted = field.value.toLowerCase();
    let count = 0;
    for (const { task, name, logs } of tasks) {
      let found = 0;
      for (const { log, text } of logs) {
        const lines = wanted ? text.split("\n").filter((line) => line.toLowerCase().includes(wanted)) : [];
        log.textContent = wanted ? lines.join("\n") : text;
        if (lines.length) log.closest("details").open = true;
        found += lines.length;
      }
      task.hidden = Boolean(wanted) && !found && !name.includes(wanted);
      task.open = found > 0;
      count += found;
    }
    told.textContent = wanted ? `${count} ${count === 1 ? "line" : "lines"}` : "";
  }

  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 150);
  });
  const show = () => {
    const task = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (task?.matches(".task")) task.open = true;
  };
  addEventListener("hashchange", show);
  show();
})();
