/* What the quick function of a program (xlac_cpu/templates/fastcall.ll) would be as a vectorcall type of the limited API:
   a model of two inputs and one output, each f32[2, 4], which adds them. Arrays are read by the buffer protocol. */
#define Py_LIMITED_API 0x030C0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>

typedef void (*Run)(void **io);
typedef PyObject *(*NewFromDescr)(void *, void *, int, Py_ssize_t *, Py_ssize_t *, void *, int, void *);

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    Run run;
    NewFromDescr allocate; /* of NumPy's table; null: results are made by calling numpy.empty */
    void *array_type, *descr;
    PyObject *empty, *shape, *dtype, *names[2];
} Model;

static Py_ssize_t extents[2] = {2, 4};

/* Whether an argument is an array of the type and shape that the program takes; then `view` holds its buffer. */
static int fits(PyObject *array, Py_buffer *view) {
    if (PyObject_GetBuffer(array, view, PyBUF_STRIDES | PyBUF_FORMAT) < 0) {
        PyErr_Clear();
        return 0;
    }
    if (view->ndim == 2 && view->itemsize == 4 && view->format && view->format[0] == 'f' && !view->format[1] &&
        view->shape[0] == extents[0] && view->shape[1] == extents[1] && view->strides[1] == 4 && view->strides[0] == 16)
        return 1;
    PyBuffer_Release(view);
    return 0;
}

/* Whether the arguments by keyword are the last inputs, in their order. */
static int named(Model *model, Py_ssize_t given, PyObject *names) {
    Py_ssize_t count = names ? PyTuple_Size(names) : 0;
    if (given + count != 2)
        return 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *name = PyTuple_GetItem(names, k);
        if (name != model->names[given + k] && PyUnicode_Compare(name, model->names[given + k]))
            return 0;
    }
    return 1;
}

static PyObject *result_of(Model *model) {
    if (model->allocate) {
        Py_IncRef((PyObject *)model->descr);
        return model->allocate(model->array_type, model->descr, 2, extents, NULL, NULL, 0, NULL);
    }
    PyObject *args[2] = {model->shape, model->dtype};
    return PyObject_Vectorcall(model->empty, args, 2, NULL);
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names) {
    Model *model = (Model *)self;
    Py_buffer x, z, y;
    PyObject *result = NULL;
    if (!named(model, PyVectorcall_NARGS(nargs), names) || !fits(args[0], &x)) {
        Py_IncRef(Py_NotImplemented);
        return Py_NotImplemented;
    }
    if (!fits(args[1], &z)) {
        PyBuffer_Release(&x);
        Py_IncRef(Py_NotImplemented);
        return Py_NotImplemented;
    }
    result = result_of(model);
    if (result && PyObject_GetBuffer(result, &y, PyBUF_WRITABLE) < 0) {
        Py_DecRef(result);
        result = NULL;
    }
    if (result) {
        void *io[3] = {x.buf, z.buf, y.buf};
        model->run(io);
        PyBuffer_Release(&y);
    }
    PyBuffer_Release(&x);
    PyBuffer_Release(&z);
    return result;
}

static void add(void **io) {
    float *x = io[0], *z = io[1], *y = io[2];
    for (int i = 0; i < 8; i++)
        y[i] = x[i] + z[i];
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", Py_T_PYSSIZET, offsetof(Model, call), Py_READONLY, NULL}, {0}};
static PyType_Slot slots[] = {{Py_tp_call, PyVectorcall_Call}, {Py_tp_members, members}, {0, 0}};
static PyType_Spec spec = {
    "model.Model", sizeof(Model), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};
static PyObject *type;

/* make(allocate, array_type, descr, empty, shape, dtype): a model; the first three are addresses, `allocate` may be 0. */
static PyObject *make(PyObject *module, PyObject *args) {
    unsigned long long allocate, array_type, descr;
    PyObject *empty, *shape, *dtype;
    if (!PyArg_ParseTuple(args, "KKKOOO", &allocate, &array_type, &descr, &empty, &shape, &dtype))
        return NULL;
    Model *model = PyObject_New(Model, (PyTypeObject *)type);
    if (!model)
        return NULL;
    model->call = call;
    model->run = add;
    model->allocate = (NewFromDescr)allocate;
    model->array_type = (void *)array_type;
    model->descr = (void *)descr;
    Py_IncRef(model->empty = empty);
    Py_IncRef(model->shape = shape);
    Py_IncRef(model->dtype = dtype);
    model->names[0] = PyUnicode_InternFromString("x");
    model->names[1] = PyUnicode_InternFromString("z");
    return (PyObject *)model;
}

static PyMethodDef methods[] = {{"make", make, METH_VARARGS, NULL}, {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "model", NULL, -1, methods};

PyMODINIT_FUNC PyInit_model(void) {
    type = PyType_FromSpec(&spec);
    return type ? PyModule_Create(&definition) : NULL;
}
